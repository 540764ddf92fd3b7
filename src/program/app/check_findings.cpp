// SPDX-License-Identifier: Apache-2.0
#include "app/check_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <variant>

#include "config/checks.hpp"
#include "core/error.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "model/graph/network_graph.hpp"
#include "model/replica.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_model.hpp"
#include "setup/local_data.hpp"
#include "setup/look_at_data.hpp"
#include "sync/local_sgd.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kShownClasses = 20;
constexpr std::size_t kShownRanks = 16;

/// "cat 6, dog 4"; of many classes the first ones.
std::string classes_text(const std::vector<std::string>& names,
                         const std::vector<std::uint64_t>& counts) {
  std::string text;
  for (std::size_t c = 0; c < std::min(counts.size(), kShownClasses); ++c)
    text += fmt::format("{}{} {}", c == 0 ? "" : ", ",
                        c < names.size() ? names[c] : fmt::format("{}", c), counts[c]);
  if (counts.size() > kShownClasses) {
    const auto rest = counts.begin() + kShownClasses;
    text +=
        fmt::format(", and {} more with {} to {} samples", counts.size() - kShownClasses,
                    *std::min_element(rest, counts.end()), *std::max_element(rest, counts.end()));
  }
  return text;
}

std::string shapes_text(const std::vector<data::ArraySpec>& inputs,
                        const std::optional<data::ArraySpec>& target) {
  std::string text = "inputs " + data::text_of(inputs);
  if (target) text += ", targets " + data::text_of(*target);
  return text;
}

std::vector<std::uint64_t> counts_of(const data::Dataset& set) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(set.classes()));
  if (!counts.empty())
    for (const int label : data::labels_of(set)) ++counts.at(static_cast<std::size_t>(label));
  return counts;
}

std::string samples_text(std::size_t train, std::size_t test) {
  return fmt::format("{} training and {} test samples", train, test);
}

std::string samples_text(const data::DatasetPair& pair) {
  return samples_text(pair.train->size(), pair.test == nullptr ? 0 : pair.test->size());
}

void add_notes(const data::DatasetPair& pair, std::vector<std::string>& lines) {
  for (const std::string& note : pair.notes) lines.push_back("note: " + note);
}

std::vector<std::string> shared_findings(const config::RunConfig& config) {
  const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config));
  std::vector<std::string> lines = {
      fmt::format("data: {}, {}, {}", config.data.name->name, samples_text(pair),
                  shapes_text(pair.train->inputs(), pair.train->target()))};
  if (const auto counts = counts_of(*pair.train); !counts.empty())
    lines.push_back(
        fmt::format("classes: {} ({})", counts.size(), classes_text(pair.class_names, counts)));
  add_notes(pair, lines);
  return lines;
}

/// Each rank's set is opened, told and closed again.
std::vector<std::string> local_findings(const config::RunConfig& config, int ranks) {
  std::vector<std::string> lines, told;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config, rank));
    told.push_back(setup::told(pair));
    if (rank == 0)
      lines.push_back(fmt::format("data: {}, a set for each of {} ranks, {}",
                                  config.data.name->name, ranks,
                                  shapes_text(pair.train->inputs(), pair.train->target())));
    if (static_cast<std::size_t>(rank) >= kShownRanks) continue;
    const auto counts = counts_of(*pair.train);
    lines.push_back(fmt::format("data of rank {}: {}{}{}{}", rank, samples_text(pair),
                                counts.empty() ? "" : " (", classes_text(pair.class_names, counts),
                                counts.empty() ? "" : ")"));
    add_notes(pair, lines);
  }
  const setup::LocalData all = setup::known_of(told);
  (void)setup::local_steps_per_epoch(config, all);
  std::vector<std::uint64_t> counts(all.class_names.size());
  for (const auto& of_rank : all.class_histogram)
    for (std::size_t c = 0; c < counts.size(); ++c) counts[c] += of_rank[c];
  if (!counts.empty())
    lines.push_back(fmt::format("classes: {} of all ranks ({})", counts.size(),
                                classes_text(all.class_names, counts)));
  return lines;
}

// A step changes every value by the learning rate; the rates of stochastic gradient descent are far
// larger.
constexpr double kLargestSignRate = 0.01;

// A bound from which training without error feedback was seen to end lower (docs/choosing.md).
constexpr double kFeltVariance = 0.2;

struct VarianceBound {
  std::optional<double> variance;  // the largest over tensors; empty if one has no bound
  std::size_t tensors = 0;         // compressed ones
};

VarianceBound bound_of(const config::RunConfig& config, const Layout& layout,
                       const codec::Compressor& compressor) {
  VarianceBound bounds{.variance = 0.0};
  for (const pipeline::FusionBucket& bucket : setup::make_plan(config, layout, compressor)) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed) continue;
      ++bounds.tensors;
      const auto bound = compressor.variance_bound(segment.count);
      if (!bound || !bounds.variance) {
        bounds.variance.reset();
      } else {
        bounds.variance = std::max(*bounds.variance, *bound);
      }
    }
  }
  return bounds;
}

/// Returns whether training without error feedback was seen to end lower with as much noise.
bool is_felt(const config::RunConfig& config, const VarianceBound& bounds) {
  // No code of as many bits a value has less noise on a Gaussian source (Shannon 1959).
  if (const auto rate = config.compressor.rate) return std::pow(4.0, -*rate) >= kFeltVariance;
  return !bounds.variance || *bounds.variance >= kFeltVariance;
}

/// Empty: what is not sent is lost.
std::optional<std::string> memory_of(const config::RunConfig& config,
                                     const codec::Properties& properties) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.averages()) return fmt::format("by the algorithm {}", algorithm.name);
  if (properties.forgets_sent || properties.votes) return "its own";
  const config::ErrorFeedback feedback = config::settled_feedback(config, properties);
  if (feedback == config::ErrorFeedback::none) return {};
  return fmt::format("{}{}", name_of(feedback),
                     config::corrects_momentum(config, properties) ? " with ranks' momentum" : "");
}

/// Nothing if ranks have sets of their own, and one of them is not on this machine. An emulated run
/// has none.
std::optional<data::DatasetFacts> facts_here(const config::RunConfig& config, int ranks) {
  if (config.train.is_emulated()) return data::DatasetFacts();
  return setup::look_at_data_here(config, ranks);
}

std::uint64_t training_samples(const config::RunConfig& config, const data::DatasetFacts& facts) {
  return config.data.limit_train > 0 ? config.data.limit_train : facts.train;
}

/// Refuses what a run refuses because of its data, whatever its number of ranks.
void require_samples(const config::RunConfig& config, const data::DatasetFacts& facts) {
  if (config.train.is_emulated() || setup::has_local_data(config) || facts.train == 0) return;
  data::require_limit(config.data.limit_train, facts.train, "data.limit_train");
  data::require_limit(config.data.limit_test, facts.test, "data.limit_test");
  const std::uint64_t samples = training_samples(config, facts);
  std::uint64_t step = config.train.samples_per_step();
  if (const auto* const list = std::get_if<std::vector<std::uint64_t>>(&config.train.batch_sizes))
    step = config.train.accumulate * std::accumulate(list->begin(), list->end(), std::uint64_t{0});
  if (step > samples)
    fail(Kind::usage,
         "train.{} times train.accumulate: expected at most the {} training samples, found {}; "
         "lower one of them",
         config.train.has_batches_by_rank() ? "batch_sizes" : "batch_size", samples, step);
}

/// Returns a sentence on averages that are later than theory has them for nothing; "" if none are.
/// Source: L. Zhu et al., "Delayed gradient averaging", NeurIPS 2021: with n ranks and T steps
/// the error grows by n D^2 / T beside 1 / sqrt(n T), which D = T^(1/4) n^(-3/4) makes equal.
std::string delay_text(const config::RunConfig& config, const data::DatasetFacts& facts,
                       int ranks) {
  const auto& s = config.synchronization;
  const auto round = s.local_steps.count;
  if (!s.algorithm->averages_models || s.delay.count == 0u || !round || ranks < 2) return {};
  const std::uint64_t delay = s.delay.count.value_or(sync::automatic_delay(*round));
  const std::uint64_t samples = training_samples(config, facts);
  const std::uint64_t step = config.train.samples_per_step() * static_cast<std::uint64_t>(ranks);
  const std::uint64_t steps =
      config.train.steps > 0 ? config.train.steps : config.train.epochs * (samples / step);
  const double free = std::pow(static_cast<double>(steps), 0.25) * std::pow(ranks, -0.75);
  if (steps == 0 || static_cast<double>(delay) <= free) return {};
  return fmt::format(
      "synchronization.delay: averages come {} steps late; with {} steps of {} ranks theory has "
      "{:.2g} for nothing, and where it was measured later averages ended at a lower accuracy "
      "(docs/algorithms.md): take as few as hide the messages",
      delay, steps, ranks, free);
}

/// "272 thousand", "11.2 million": three digits of large numbers.
std::string count_text(double count) {
  const char* unit = "";
  for (const char* const larger : {" thousand", " million", " billion", " trillion"}) {
    if (count < 1000) break;
    count /= 1000;
    unit = larger;
  }
  const bool whole = *unit == '\0' || count >= 100;
  return fmt::format("{:.{}f}{}", count, whole ? 0 : count >= 10 ? 1 : 2, unit);
}

}  // namespace

Findings look_at_run(const config::RunConfig& config, int ranks) {
  const std::optional<data::DatasetFacts> facts = facts_here(config, ranks);
  if (!facts) return {.lines = own_set_findings(config), .estimate = {}};
  require_samples(config, *facts);
  Findings found{.lines = data_findings(config, *facts, ranks), .estimate = {}};
  found.estimate =
      setup::estimate_memory(config, *facts, ranks, std::max(1, config.threads_per_rank), 0,
                             config.device == config::Device::cuda);
  if (!config.train.is_emulated() && !found.estimate->layout.empty())
    setup::update_rules(config, found.estimate->layout);
  if (!found.estimate->layout.empty())
    found.lines.push_back(
        network_text(config, *facts, total_count(found.estimate->layout), found.estimate->frozen));
  std::ranges::move(weight_findings(config, *facts), std::back_inserter(found.lines));
  if (std::string late = delay_text(config, *facts, ranks); !late.empty())
    found.lines.push_back(std::move(late));
  return found;
}

std::vector<std::string> data_findings(const config::RunConfig& config,
                                       const data::DatasetFacts& facts, int ranks) {
  if (config.train.is_emulated()) return {};
  if (setup::has_local_data(config)) return local_findings(config, ranks);
  if (config.data.name->needs_files) return shared_findings(config);
  const auto limited = [](std::size_t samples, std::size_t limit) {
    return limit == 0 ? samples : std::min(samples, limit);
  };
  return {fmt::format("data: {}, {}, {}", config.data.name->name,
                      samples_text(limited(facts.train, config.data.limit_train),
                                   limited(facts.test, config.data.limit_test)),
                      shapes_text(facts.inputs, facts.target))};
}

std::vector<std::string> own_set_findings(const config::RunConfig& config) {
  std::error_code error;
  const std::string place = setup::place_of(config.data.path, 0);
  if (config.data.path.find("{rank}") != std::string::npos) return {};
  if (!std::filesystem::exists(place, error))
    return {fmt::format("data of this host: there is no {}", place)};
  constexpr Rank kAny = 1;  // rank 0 may have to bring the test set of all
  const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config, kAny));
  const auto counts = counts_of(*pair.train);
  std::vector<std::string> lines = {fmt::format(
      "data of this host: {}, {}{}{}{}, {}", config.data.name->name, samples_text(pair),
      counts.empty() ? "" : " (", classes_text(pair.class_names, counts), counts.empty() ? "" : ")",
      shapes_text(pair.train->inputs(), pair.train->target()))};
  add_notes(pair, lines);
  const bool every_rank = config.data.partition.epoch == data::LocalEpoch::smallest;
  if (every_rank && !config.train.has_batches_by_rank()) {
    setup::LocalData own;
    own.train_samples = {pair.train->size()};
    (void)setup::local_steps_per_epoch(config, own);
  }
  return lines;
}

std::string network_text(const config::RunConfig& config, const data::DatasetFacts& facts,
                         std::size_t trained, std::size_t frozen) {
  const auto count = [](std::size_t values) { return count_text(static_cast<double>(values)); };
  std::string text = fmt::format("network: {} parameters", count(trained + frozen));
  if (frozen > 0) text += fmt::format(", {} of them trained", count(trained));
  if (config.model.name->users_own) return text;
  const model::ModelOptions options =
      config.train.is_emulated()
          ? setup::published_network(config)
          : setup::network_for(config, {facts.inputs, facts.target, facts.classes});
  const std::optional<model::Graph> graph = model::network_graph(options);
  EQT_CHECK(graph.has_value(), "{} has no graph", config.model.name->name);
  return text + fmt::format(", {} multiply-adds a sample", count_text(graph->multiply_adds()));
}

std::vector<std::string> weight_findings(const config::RunConfig& config,
                                         const data::DatasetFacts& facts) {
  if (config.train.is_emulated() || !setup::has_initial_weights(config)) return {};
  const std::unique_ptr<model::Replica> network = model::make_idle_replica(
      setup::network_for(config, {facts.inputs, facts.target, facts.classes}));
  const setup::InitialWeights weights = setup::load_initial_weights(config, *network);
  std::vector<std::string> lines;
  for (const std::string& file : weights.files)
    lines.push_back(fmt::format("weights: {} fits", file));
  for (const std::string& note : weights.notes) lines.push_back(fmt::format("weights: {}", note));
  return lines;
}

std::vector<std::string> noise_notes(const config::RunConfig& config) {
  if (!config.compressor.adapts_grades()) return {};
  const std::string_view name = config.compressor.name->name;
  if (config.train.is_emulated())
    return {fmt::format(
        "compressor {}: gradients of emulated boards are drawn, so all of them is noise, and "
        "grades say nothing about those of a network",
        name)};
  const data::PartitionRow& partition = *config.data.partition.kind;
  if (partition.reshuffles) return {};
  return {fmt::format(
      "warning: compressor {}: expected data.partition.kind \"iid\", found \"{}\": what ranks' "
      "data differ in counts as noise, so compression adds more than compressor.noise_share {}; "
      "try a smaller one",
      name, partition.name, config.compressor.noise_share)};
}

namespace {

/// Returns whether noise is to be asked for at all: the optimizer makes more of it, and the bits
/// are not chosen by it.
bool may_amplify(const config::RunConfig& config) {
  return config.optimizer.name->amplifies_noise && !config.compressor.adapts_grades();
}

std::string amplified_text(const config::RunConfig& config) {
  return fmt::format(
      "compressor: optimizer {} makes noise as large as the gradient where that is weak: "
      "e-elastiquant with compressor.rate 2.5 or 3.5 ended where float32 did, with fewer bits 0.5 "
      "to 1.7 points lower, topk 2.6 to 2.9 (docs/choosing.md)",
      config.optimizer.name->name);
}

}  // namespace

std::vector<std::string> optimizer_notes(const config::RunConfig& config, const Layout& layout) {
  if (!may_amplify(config)) return {};
  const auto compressor = config.compressor.make();
  if (compressor->properties().lossless) return {};
  const VarianceBound bounds = bound_of(config, layout, *compressor);
  if (bounds.tensors == 0 || !is_felt(config, bounds)) return {};
  return {amplified_text(config)};
}

std::vector<std::string> compressor_notes(const config::RunConfig& config, const Layout& layout) {
  const auto compressor = config.compressor.make();
  const codec::Properties properties = compressor->properties();
  if (properties.lossless) return {};
  const VarianceBound bounds = bound_of(config, layout, *compressor);
  const std::string_view name = config.compressor.name->name;
  if (bounds.tensors == 0)
    return {
        fmt::format("compressor: {}: every tensor is below compressor.skip_below {} or has one "
                    "dimension, and is sent as {}",
                    name, config.compressor.skip_below, name_of(config.compressor.small_tensors))};
  const std::optional<std::string> memory = memory_of(config, properties);
  const std::string variance = bounds.variance ? fmt::format("at most {:.3g}", *bounds.variance)
                                               : std::string("no bound is known");
  std::vector<std::string> notes = {fmt::format(
      "compressor: {}, {}; error feedback: {}; variance of a message, relative to the "
      "gradient's square: {}",
      name, properties.unbiased ? "unbiased" : "biased", memory.value_or("none"), variance)};
  // Grades that are too noisy for a run's gradients are not chosen.
  if (bounds.variance && *bounds.variance > 1 && !memory && !config.compressor.adapts_grades())
    notes.push_back(fmt::format(
        "warning: compressor {}: expected a variance bound of at most 1 without error feedback, "
        "found {:.3g}: the error may be larger than the gradient; try more compressor.bits, a "
        "smaller compressor.bucket_size, or elastiquant, whose bound at equal bits is lower",
        name, *bounds.variance));
  if (may_amplify(config) && is_felt(config, bounds))
    notes.push_back(amplified_text(config));
  else if (bounds.variance && *bounds.variance >= kFeltVariance && *bounds.variance < 1 &&
           !memory && !properties.scales_up && !config.compressor.adapts_grades())
    notes.push_back(
        "compressor: with synchronization.error_feedback \"ef14\" the same bytes ended at a higher "
        "accuracy where that was measured (docs/choosing.md); it keeps a residual of the model's "
        "size");
  std::ranges::move(noise_notes(config), std::back_inserter(notes));
  const double ef21_momentum = config.synchronization.ef21_momentum;
  if (ef21_momentum < 1 && config.optimizer.momentum > 0)
    notes.push_back(fmt::format(
        "warning: synchronization.ef21_momentum {}: expected optimizer.momentum 0, since momentum "
        "after momentum delays a gradient twice, found {}; set it to 0",
        ef21_momentum, config.optimizer.momentum));
  if (properties.votes && config.optimizer.learning_rate > kLargestSignRate)
    notes.push_back(fmt::format(
        "warning: compressor {}: expected optimizer.learning_rate of at most {}, by which every "
        "value moves in a step, found {}; try 0.001",
        name, kLargestSignRate, config.optimizer.learning_rate));
  return notes;
}

}  // namespace eqt::app
