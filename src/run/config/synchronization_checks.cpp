// SPDX-License-Identifier: Apache-2.0
// These check the keys of the section synchronization, without a number of ranks: algorithms,
// rounds, quorums, error feedback.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "config/checks.hpp"
#include "config/keys_read.hpp"
#include "core/catalogue.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

/// "a, b, c": the algorithms that quasi-global momentum goes with.
std::string quasi_global_algorithms() {
  std::string names;
  for (const Entry<sync::AlgorithmRow> row : sync::AlgorithmRow::all())
    if (row->quasi_global) names += fmt::format("{}{}", names.empty() ? "" : ", ", row->name);
  return names;
}

void check_keys(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  check_keys_read(config, "synchronization.algorithm", *s.algorithm, sync::AlgorithmRow::all(),
                  origin);
  if (s.algorithm->averages_models && s.local_steps.count == 1u && s.post_local_epochs != 0)
    fail(Kind::usage,
         "{}: expected synchronization.local_steps above 1 with synchronization.post_local_epochs, "
         "found 1, which averages in every step; try 8",
         origin);
}

/// Keys of rounds of different lengths.
void check_quadratic_rule(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (s.local_steps.count) {
    const RunConfig::Synchronization standard;
    if (s.local_steps_base == standard.local_steps_base &&
        s.local_steps_most == standard.local_steps_most &&
        s.local_steps_alpha == standard.local_steps_alpha)
      return;
    fail(Kind::usage,
         "{}: expected synchronization.local_steps_base, _most and _alpha only with "
         "synchronization.local_steps \"{}\", found {}; leave them out",
         origin, kQsr, *s.local_steps.count);
  }
  if (!s.algorithm->averages_models)
    fail(Kind::usage,
         "{}: expected an integer synchronization.local_steps for synchronization.algorithm "
         "\"{}\", found \"{}\", which local-sgd alone has",
         origin, s.algorithm->name, kQsr);
  if (s.local_steps_most < s.local_steps_base)
    fail(Kind::usage,
         "{}: expected synchronization.local_steps_most of at least local_steps_base, which is {}, "
         "found {}",
         origin, s.local_steps_base, s.local_steps_most);
  if (s.post_local_epochs != 0)
    fail(Kind::usage,
         "{}: expected synchronization.post_local_epochs 0 with synchronization.local_steps "
         "\"{}\", which sets the steps of each round itself, found {}",
         origin, kQsr, s.post_local_epochs);
}

/// Parts of the model with rounds of their own.
void check_fragments(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (s.fragments == 1) return;
  if (!s.local_steps.count)
    fail(Kind::usage,
         "{}: expected an integer synchronization.local_steps with synchronization.fragments, "
         "whose rounds are spread over so many steps, found \"{}\"",
         origin, kQsr);
  if (s.fragments > *s.local_steps.count)
    fail(Kind::usage,
         "{}: expected synchronization.fragments of at most local_steps, which is {}, found {}",
         origin, *s.local_steps.count, s.fragments);
}

/// Averages that are applied late, in parts, or with an outer step.
void check_outer_step(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  const std::uint64_t least = s.local_steps.count.value_or(s.local_steps_base);
  if (s.delay.count > least)
    fail(Kind::usage,
         "{}: expected synchronization.delay of at most the steps per round, which are {}, found "
         "{}; try \"{}\"",
         origin, least, *s.delay.count, kAuto);
  if (s.algorithm->mixes && s.delay.count != 0u && s.order != sync::Order::adapt_then_combine)
    fail(Kind::usage,
         "{}: expected synchronization.order \"{}\" with synchronization.delay, which itself lets "
         "ranks train while messages are under way, found \"{}\"; leave it out",
         origin, name_of(sync::Order::adapt_then_combine), name_of(s.order));
  if (s.adaptive_step && s.delay.count != 0u)
    fail(Kind::usage,
         "{}: expected synchronization.adaptive_step false with synchronization.delay, whose steps "
         "must be small, found true; leave one of them out",
         origin);
  if (s.outer.nesterov && s.outer.momentum == 0)
    fail(Kind::usage,
         "{}: expected synchronization.outer.momentum above 0 with synchronization.outer.nesterov, "
         "found 0; try 0.9",
         origin);
  if (s.outer.by_rate && s.outer.momentum == 0)
    fail(Kind::usage,
         "{}: expected synchronization.outer.momentum above 0 with synchronization.outer.by_rate, "
         "without which it changes nothing, found 0; try 0.7",
         origin);
  const bool late = s.delay.count != 0u;
  const bool parts = s.fragments > 1;
  if (!late && !parts && s.outer == RunConfig::Synchronization::Outer{}) return;
  const std::string_view key = late ? "delay" : parts ? "fragments" : "outer";
  if (s.post_local_epochs != 0)
    fail(Kind::usage,
         "{}: expected synchronization.post_local_epochs 0 with synchronization.{}, found {}; "
         "leave one of them out",
         origin, key, s.post_local_epochs);
  if (config.optimizer.momentum_kind == sync::MomentumKind::quasi_global)
    fail(Kind::usage,
         "{}: expected optimizer.momentum_kind \"local\" with synchronization.{}, found "
         "\"quasi-global\", which learns from averages of the whole model that are applied at once",
         origin, key);
}

/// Rounds of a quorum, whose ranks have no step in common.
void check_quorum(const RunConfig& config, const codec::Properties& properties,
                  const std::string& origin) {
  const auto& s = config.synchronization;
  const auto refuse = [&](std::string_view key, std::string_view expected, std::string_view why,
                          std::string_view found) {
    fail(Kind::usage, "{}: expected {} {} with synchronization.quorum, {}, found {}", origin, key,
         expected, why, found);
  };
  if (s.quorum == 0) {
    if (!s.grace_seconds) return;
    fail(Kind::usage,
         "{}: expected synchronization.quorum above 0 with synchronization.grace_seconds, found 0; "
         "set it or leave both out",
         origin);
  }
  if (!s.local_steps.count)
    refuse("synchronization.local_steps", "as an integer", "whose ranks have no step in common",
           fmt::format("\"{}\"", kQsr));
  if (s.delay.count == 0u)
    refuse("synchronization.delay", "of at least 1", "during which rounds close",
           "0; try \"auto\"");
  if (s.fragments != 1)
    refuse("synchronization.fragments", "1", "whose rounds are of the whole model",
           fmt::format("{}", s.fragments));
  if (s.outer.mixing)
    refuse("synchronization.outer.mixing", "null", "in which all progress counts",
           fmt::format("{}", *s.outer.mixing));
  if (s.outer.by_rate)
    refuse("synchronization.outer.by_rate", "false",
           "whose members have no learning rate in common", "true");
  if (!s.overlap)
    refuse("synchronization.overlap", "true", "whose rounds close during the steps", "false");
  if (!(s.collective == collective::kAutomatic) && !(s.collective == collective::kAllgather))
    refuse("synchronization.collective", "\"auto\" or \"allgather\"",
           "whose members send to all ranks", fmt::format("\"{}\"", s.collective->name));
  if (properties.shared_scale || properties.averages_itself)
    refuse(
        "another compressor.name", "", "whose members send to all ranks at once",
        fmt::format("\"{}\", which first agrees on values with all", config.compressor.name->name));
  if (config.compressor.make()->adaptive_levels() != nullptr)
    refuse("compressor.name", "one whose levels do not adapt",
           "whose ranks share no step in which they could",
           fmt::format("\"{}\"; set another, or other compressor.levels",
                       config.compressor.name->name));
  if (config.train.on_divergence == OnDivergence::rollback)
    refuse("train.on_divergence", "\"stop\"", "whose ranks have no step in common to go back to",
           "\"rollback\"");
  if (config.train.early_stopping != 0)
    refuse("train.early_stopping", "0", "whose last round belongs to a known end",
           fmt::format("{}", config.train.early_stopping));
}

void check_events(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (s.event_threshold > 0 || s.event_silence == RunConfig::Synchronization{}.event_silence)
    return;
  fail(Kind::usage,
       "{}: expected synchronization.event_threshold above 0 with synchronization.event_silence, "
       "found 0; try 2",
       origin);
}

void check_momentum(const RunConfig& config, const std::string& origin) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  const bool quasi_global = config.optimizer.momentum_kind == sync::MomentumKind::quasi_global;
  if (quasi_global && !algorithm.quasi_global)
    fail(Kind::usage,
         "{}: expected optimizer.momentum_kind \"local\" for synchronization.algorithm \"{}\", "
         "found \"quasi-global\", which learns from what averaging does to {}",
         origin, algorithm.name, quasi_global_algorithms());
  if (quasi_global && config.optimizer.momentum == 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum above 0 with optimizer.momentum_kind \"quasi-global\", "
         "found 0; try 0.9",
         origin);
  if (algorithm.plain_gradients() && config.optimizer.momentum != 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum 0 for synchronization.algorithm \"{}\", which needs "
         "plain gradients, found {}; set it to 0 (and optimizer.nesterov to false)",
         origin, algorithm.name, config.optimizer.momentum);
}

/// Compressors that need gradients and a collective; the others suit models and their differences.
void check_compressor(const RunConfig& config, const codec::Properties& properties,
                      const std::string& origin) {
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected another compressor than \"{}\" for synchronization.algorithm \"{}\", which "
         "sends models or their differences: {}; take {}",
         origin, config.compressor.name->name, config.synchronization.algorithm->name, why,
         instead);
  };
  if (properties.votes)
    refuse("its signs carry no size, and votes are about gradients", "\"ef-signsgd\"");
  if (properties.forgets_sent) refuse("its memory is one of gradients", "\"topk\"");
}

void check_neighbours_only(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (!(s.collective == collective::kAutomatic))
    fail(Kind::usage,
         "{}: expected synchronization.collective \"auto\" for synchronization.algorithm \"{}\", "
         "which talks to neighbours only, found \"{}\"; leave it out",
         origin, s.algorithm->name, s.collective->name);
  if (s.error_feedback == ErrorFeedback::ef14 || s.error_feedback == ErrorFeedback::ef21)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" for synchronization.algorithm "
         "\"{}\", "
         "found \"{}\", which is for gradients; for models take choco-sgd or deep-squeeze",
         origin, s.algorithm->name, name_of(s.error_feedback));
}

/// Messages that are the network's weights: of a network that has them, before it computes.
void check_network_weights(const RunConfig& config, const std::string& origin) {
  const auto refuse = [&](std::string_view key, std::string_view expected, std::string_view found) {
    fail(Kind::usage,
         "{}: expected {} \"{}\" with synchronization.network_weights, found \"{}\"; set it or "
         "leave synchronization.network_weights out",
         origin, key, expected, found);
  };
  const auto& s = config.synchronization;
  if (config.model.precision != model::Precision::int8)
    refuse("model.precision", name_of(model::Precision::int8), name_of(config.model.precision));
  if (config.compressor.name != codec::kInt8Channels)
    refuse("compressor.name", codec::kInt8Channels.name, config.compressor.name->name);
  if (s.order != sync::Order::combine_then_adapt)
    refuse("synchronization.order", name_of(sync::Order::combine_then_adapt), name_of(s.order));
  if (config.compressor.granularity != codec::Granularity::layer)
    refuse("compressor.granularity", name_of(codec::Granularity::layer),
           name_of(config.compressor.granularity));
  if (config.train.accumulate > 1)
    fail(Kind::usage,
         "{}: expected train.accumulate 1 with synchronization.network_weights, which are rounded "
         "before the last batch of a step, found {}; set it or leave "
         "synchronization.network_weights out",
         origin, config.train.accumulate);
  if (config.train.is_emulated())
    fail(Kind::usage,
         "{}: expected synchronization.network_weights false with train.emulate_compute, which "
         "runs no network, found true; leave it out",
         origin);
}

/// Checks an algorithm that has a quantizer and messages of its own, and compares gradients of the
/// same samples.
void check_lazy(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  const auto refuse = [&](std::string_view key, std::string_view expected, std::string_view why,
                          std::string_view found) {
    fail(Kind::usage,
         "{}: expected {} {} for synchronization.algorithm \"{}\", {}, found {}; leave it out",
         origin, key, expected, s.algorithm->name, why, found);
  };
  if (config.compressor.name != codec::kNone)
    refuse("compressor.name", "\"none\"", "whose bits are synchronization.laq_bits",
           fmt::format("\"{}\"", config.compressor.name->name));
  if (config.compressor.coding != codec::Coding::fixed)
    refuse("compressor.coding", "\"fixed\"", "whose messages have a coding of their own",
           fmt::format("\"{}\"", name_of(config.compressor.coding)));
  if (!(s.collective == collective::kAutomatic))
    refuse("synchronization.collective", "\"auto\"", "whose ranks send to all others or to none",
           fmt::format("\"{}\"", s.collective->name));
  if (s.error_feedback != ErrorFeedback::automatic)
    refuse("synchronization.error_feedback", "\"auto\"", "whose differences correct themselves",
           fmt::format("\"{}\"", name_of(s.error_feedback)));
  if (config.data.partition.reshuffle)
    refuse("data.partition.reshuffle", "false", "which needs ranks that keep their samples",
           "true");
}

void check_asynchronous(const RunConfig& config, const std::string& origin) {
  const auto& s = config.synchronization;
  if (config.train.on_divergence == OnDivergence::rollback)
    fail(Kind::usage,
         "{}: expected train.on_divergence \"stop\" for synchronization.algorithm \"{}\", whose "
         "ranks have no step in common to go back to, found \"rollback\"",
         origin, s.algorithm->name);
  if (!s.overlap)
    fail(Kind::usage,
         "{}: expected synchronization.overlap true for synchronization.algorithm \"{}\", whose "
         "pairs average during the steps, found false; leave it out",
         origin, s.algorithm->name);
  if (s.topology.weights != topology::Weights::automatic)
    fail(Kind::usage,
         "{}: expected synchronization.topology.weights \"auto\" for synchronization.algorithm "
         "\"{}\", which always takes the mean of two, found \"{}\"; leave it out",
         origin, s.algorithm->name, name_of(s.topology.weights));
}

/// The largest tensor that a bound is asked for; buckets are shorter.
constexpr std::size_t kLongest = std::size_t{1} << 24;

bool is_contraction(const codec::Compressor& compressor) {
  // What needs feedback and what rounds to nearest never leaves more than there was.
  const codec::Properties properties = compressor.properties();
  if (!properties.random || properties.needs_feedback) return true;
  const std::optional<double> bound = compressor.variance_bound(kLongest);
  return bound && *bound < 1;
}

/// Refuses plugins: the program's own compressors are damped where they need it.
void require_contraction(const RunConfig& config, const codec::Compressor& compressor,
                         const std::string& origin) {
  if (is_contraction(compressor)) return;
  fail(Kind::usage,
       "{}: expected a compressor whose error is smaller than the gradient for "
       "synchronization.error_feedback \"{}\", found \"{}\" with an error without a bound, which a "
       "residual would add up; set synchronization.error_feedback to \"auto\"",
       origin, name_of(config.synchronization.error_feedback), config.compressor.name->name);
}

/// A residual that decays is that of ef14.
void check_decay(const RunConfig& config, const codec::Properties& properties,
                 const std::string& origin) {
  const auto& s = config.synchronization;
  if (s.feedback_decay == 1) return;
  const auto refuse = [&](const std::string& with, std::string_view instead) {
    fail(Kind::usage, "{}: expected synchronization.feedback_decay 1 with {}, found {}; {}", origin,
         with, s.feedback_decay, instead);
  };
  constexpr std::string_view kLeaveOut = "leave it out";
  constexpr std::string_view kOrFeedback =
      "set synchronization.error_feedback to \"ef14\" or leave it out";
  if (!s.algorithm->averages())
    refuse(fmt::format("synchronization.algorithm \"{}\", which keeps no residual of gradients",
                       s.algorithm->name),
           kLeaveOut);
  if (properties.forgets_sent)
    refuse(fmt::format("the compressor \"{}\", which accumulates what it did not send by itself",
                       config.compressor.name->name),
           kLeaveOut);
  if (s.error_feedback == ErrorFeedback::none || s.error_feedback == ErrorFeedback::ef21)
    refuse(fmt::format("synchronization.error_feedback \"{}\", which keeps no residual",
                       name_of(s.error_feedback)),
           kOrFeedback);
  if (s.error_feedback == ErrorFeedback::automatic &&
      settled_feedback(config, properties) == ErrorFeedback::none)
    refuse(fmt::format("the compressor \"{}\", which has no error feedback unless it is asked for",
                       config.compressor.name->name),
           kOrFeedback);
}

/// A NoMomentum says what momentum before compression does not go with, and what to do.
struct NoMomentum {
  std::string with;
  std::string_view instead = "leave it out";
};

/// Momentum before compression is that of plain gradients with a residual of ef14.
NoMomentum why_no_momentum(const RunConfig& config, const codec::Properties& properties) {
  const auto& s = config.synchronization;
  if (!s.algorithm->averages_gradients)
    return {fmt::format("synchronization.algorithm \"{}\", whose ranks have momentum of their own",
                        s.algorithm->name)};
  if (!config.optimizer.name->is_plain_without_momentum || config.optimizer.momentum == 0)
    return {fmt::format("optimizer.name \"{}\" and optimizer.momentum {}, which leave none to move",
                        config.optimizer.name->name, config.optimizer.momentum),
            "set optimizer.momentum of \"sgd\", or leave it out"};
  if (any_has_momentum(config.optimizer.groups))
    return {"optimizer.groups with momentum, where the ranks accumulate one momentum for all",
            "leave one of both out"};
  if (properties.forgets_sent)
    return {fmt::format("the compressor \"{}\", which accumulates momentum by itself",
                        config.compressor.name->name)};
  if (settled_feedback(config, properties) != ErrorFeedback::ef14)
    return {
        fmt::format("the compressor \"{}\" and synchronization.error_feedback \"{}\", which keep "
                    "no residual of ef14",
                    config.compressor.name->name, name_of(s.error_feedback)),
        "set synchronization.error_feedback to \"ef14\", or leave it out"};
  return {};
}

void check_momentum_correction(const RunConfig& config, const codec::Properties& properties,
                               const std::string& origin) {
  if (config.synchronization.momentum_correction != MomentumCorrection::on) return;
  const NoMomentum why = why_no_momentum(config, properties);
  if (!why.with.empty())
    fail(Kind::usage,
         "{}: expected synchronization.momentum_correction \"auto\" or \"off\" with {}, found "
         "\"on\"; {}",
         origin, why.with, why.instead);
}

void check_ef21(const RunConfig& config, const codec::Compressor& compressor,
                const std::string& origin) {
  const auto& s = config.synchronization;
  if (!s.algorithm->averages_gradients)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\", \"none\" or \"ef14\" for "
         "synchronization.algorithm \"{}\", found \"ef21\", which follows gradients from step to "
         "step; set synchronization.algorithm to \"allreduce\"",
         origin, s.algorithm->name);
  // A fixed threshold is the only one of the program's own codecs that needs feedback and has no
  // bound. A plugin that needs it has none either, and promises to encode small vectors as well as
  // large ones.
  if (compressor.id() == codec::CodecId::threshold && !compressor.variance_bound(kLongest))
    fail(Kind::usage,
         "{}: expected compressor.threshold 0 for synchronization.error_feedback \"ef21\", which "
         "would never learn of differences below a threshold, found {}; set it to 0, which sends "
         "compressor.density of the values, or take \"ef14\", which adds up what is not sent",
         origin, config.compressor.threshold);
}

/// Small tensors in 8 bits need a residual of ef14, and a collective that sends what the plan says.
void check_small_tensors(const RunConfig& config, const codec::Properties& properties,
                         const std::string& origin) {
  if (config.compressor.small_tensors == codec::SmallTensors::float32) return;
  const auto& s = config.synchronization;
  const auto refuse = [&](const std::string& with, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected compressor.small_tensors \"float32\" with {}, found \"int8\"; {}", origin,
         with, instead);
  };
  if (!s.algorithm->averages())
    refuse(fmt::format("synchronization.algorithm \"{}\", which keeps no residual of gradients",
                       s.algorithm->name),
           "leave it out");
  if (properties.averages_itself)
    refuse(fmt::format("the compressor \"{}\", whose collective adds float32",
                       config.compressor.name->name),
           "leave it out");
  if (settled_feedback(config, properties) != ErrorFeedback::ef14)
    refuse(
        fmt::format("synchronization.error_feedback \"{}\" of the compressor \"{}\", which keeps "
                    "no residual of ef14",
                    name_of(s.error_feedback), config.compressor.name->name),
        "set synchronization.error_feedback to \"ef14\" where the compressor allows it, or leave "
        "it out");
  if (!s.collective->carries_int8_segments)
    refuse(fmt::format("synchronization.collective \"{}\", which sends small tensors as float32",
                       s.collective->name),
           "set synchronization.collective to \"auto\", \"allgather\" or \"scatter-reduce\"");
}

}  // namespace

double quadratic_rule_alpha(const RunConfig& config) {
  constexpr double kFallen = 0.2;
  const auto& s = config.synchronization;
  return s.local_steps_alpha.value_or(kFallen * config.optimizer.learning_rate *
                                      std::sqrt(static_cast<double>(s.local_steps_base)));
}

void check_synchronization(const RunConfig& config, const codec::Properties& properties,
                           const std::string& origin) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  check_keys(config, origin);
  check_quadratic_rule(config, origin);
  check_fragments(config, origin);
  check_outer_step(config, origin);
  check_events(config, origin);
  check_quorum(config, properties, origin);
  check_momentum(config, origin);
  if (algorithm.asynchronous) check_asynchronous(config, origin);
  if (config.synchronization.network_weights) check_network_weights(config, origin);
  if (algorithm.lazy) check_lazy(config, origin);
  if (algorithm.mixes) check_neighbours_only(config, origin);
  if (algorithm.mixes || algorithm.averages_models) check_compressor(config, properties, origin);
}

bool gains_by_feedback(const RunConfig& config) {
  const CompressorConfig& compressor = config.compressor;
  if (!compressor.name->gains_by_feedback || compressor.adapts_grades() ||
      !config.synchronization.algorithm->averages_gradients ||
      !config.optimizer.name->is_plain_without_momentum)
    return false;
  if (!compressor.why_not().empty()) return false;  // is refused later, with its reason
  const auto made = compressor.make();
  return !made->properties().needs_feedback && is_contraction(*made);
}

ErrorFeedback settled_feedback(const RunConfig& config, const codec::Properties& properties) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  if (wanted == ErrorFeedback::ef14 && properties.lossless) return ErrorFeedback::none;
  if (wanted != ErrorFeedback::automatic) return wanted;
  return properties.needs_feedback || gains_by_feedback(config) ? ErrorFeedback::ef14
                                                                : ErrorFeedback::none;
}

bool any_has_momentum(const ParameterGroups& groups) {
  return std::ranges::any_of(groups, [](const auto& group) { return group.momentum.has_value(); });
}

bool corrects_momentum(const RunConfig& config, const codec::Properties& properties) {
  const MomentumCorrection wanted = config.synchronization.momentum_correction;
  if (wanted == MomentumCorrection::automatic && !config.compressor.rate) return false;
  return wanted != MomentumCorrection::off && why_no_momentum(config, properties).with.empty();
}

bool needs_damping(const RunConfig& config) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  if (wanted != ErrorFeedback::ef14 && wanted != ErrorFeedback::ef21) return false;
  // Others are refused later, with their reason.
  if (!config.synchronization.algorithm->averages() || !config.compressor.why_not().empty())
    return false;
  return !is_contraction(*config.compressor.make());
}

void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin) {
  const ErrorFeedback wanted = config.synchronization.error_feedback;
  const double momentum = config.synchronization.ef21_momentum;
  if (wanted != ErrorFeedback::ef21 && momentum != 1)
    fail(Kind::usage,
         "{}: expected synchronization.ef21_momentum 1 for synchronization.error_feedback \"{}\", "
         "found {}; set synchronization.error_feedback to \"ef21\", or leave it out",
         origin, name_of(wanted), momentum);
  if (wanted == ErrorFeedback::none && config.compressor.rounding == codec::Rounding::nearest)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" with compressor.{}, whose rounding "
         "to nearest would lose small values in every step, found \"none\"; leave it out",
         origin,
         config.compressor.rate ? fmt::format("rate {}", *config.compressor.rate)
                                : "rounding \"nearest\"");
  const codec::Properties properties = compressor.properties();
  check_decay(config, properties, origin);
  check_momentum_correction(config, properties, origin);
  check_small_tensors(config, properties, origin);
  if (wanted != ErrorFeedback::ef14 && wanted != ErrorFeedback::ef21) return;
  // The residual of what loses nothing is 0.
  if (wanted == ErrorFeedback::ef14 && properties.lossless) return;
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" or \"none\" for the compressor "
         "\"{}\", {}, found \"{}\"; {}",
         origin, config.compressor.name->name, why, name_of(wanted), instead);
  };
  constexpr std::string_view kToAuto = "set it to \"auto\"";
  if (properties.lossless) refuse("which loses nothing", kToAuto);
  if (properties.forgets_sent) refuse("which keeps what it did not send by itself", kToAuto);
  if (properties.votes)
    refuse("whose votes have no magnitude to subtract", "set compressor.name to \"ef-signsgd\"");
  if (properties.scales_up)
    refuse("whose scaling by compressor.unbiased a residual would amplify", kToAuto);
  require_contraction(config, compressor, origin);
  if (wanted == ErrorFeedback::ef21) check_ef21(config, compressor, origin);
}

}  // namespace eqt::config
