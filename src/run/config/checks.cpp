// SPDX-License-Identifier: Apache-2.0
#include "config/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "codec/catalogue.hpp"
#include "config/build_topology.hpp"
#include "config/compressor_settings.hpp"
#include "config/keys_read.hpp"
#include "core/error.hpp"
#include "data/partition_plan.hpp"

namespace eqt::config {
namespace {

void check_optimizer(const RunConfig& config, const codec::Properties& compressor,
                     const std::string& origin) {
  const optim::OptimizerRow& row = *config.optimizer.name;
  check_keys_read(config, "optimizer.name", row, optim::OptimizerRow::all(), origin);
  if (row.is_plain_without_momentum) return;
  if (compressor.forgets_sent || compressor.votes)
    fail(Kind::usage,
         "{}: expected optimizer.name \"sgd\" for the compressor {}, which has a momentum of its "
         "own, "
         "found \"{}\"; set optimizer.name to \"sgd\" or take another compressor",
         origin, config.compressor.name->name, row.name);
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (algorithm.plain_gradients())
    fail(Kind::usage,
         "{}: expected optimizer.name \"sgd\" for synchronization.algorithm \"{}\", which needs "
         "plain gradients, found \"{}\"; set optimizer.name to \"sgd\" or take another algorithm",
         origin, algorithm.name, row.name);
}

/// Networks of a folder have their sizes from there.
void check_folder(const RunConfig& config, const std::string& origin) {
  const RunConfig::Model& model = config.model;
  const RunConfig::Model usual;
  const bool sized = model.layers != usual.layers || model.hidden != usual.hidden ||
                     model.heads != usual.heads || model.intermediate != usual.intermediate ||
                     model.dropout != usual.dropout;
  if (!model.path.empty() && sized)
    fail(Kind::usage,
         "{}: expected model.layers, hidden, heads, intermediate and dropout only without "
         "model.path, whose config.json says them, found both; leave one out",
         origin);
  if (model.hidden % model.heads != 0)
    fail(Kind::usage, "{}: expected a multiple of model.heads {} as model.hidden, found {}", origin,
         model.heads, model.hidden);
}

void check_model(const RunConfig& config, const std::string& origin) {
  const model::ModelRow& row = *config.model.name;
  check_keys_read(config, "model.name", row, model::ModelRow::all(), origin);
  if (config.model.precision != model::Precision::int8 && config.model.int8 != model::Int8Options{})
    fail(Kind::usage,
         "{}: expected model.int8 only with model.precision \"int8\", found \"{}\"; leave it out, "
         "or set model.precision",
         origin, name_of(config.model.precision));
  if (row.from_folder) return check_folder(config, origin);
  if (row.users_own == !config.model.path.empty()) return;
  if (row.users_own)
    fail(Kind::usage,
         "{}: expected model.path with model.name \"{}\", found none; set it to the network's file",
         origin, row.name);
  fail(Kind::usage,
       "{}: expected model.path null with model.name \"{}\", whose network is part of the program, "
       "found \"{}\"; leave it out, or set model.name to \"{}\"",
       origin, row.name, config.model.path, model::models::torchscript.name);
}

void check_task(const RunConfig& config, const std::string& origin) {
  const model::TaskRow& task = *config.task.kind;
  check_keys_read(config, "task.kind", task, model::TaskRow::all(), origin);
  if (task.own_loss && !config.model.name->users_own)
    fail(Kind::usage,
         "{}: expected model.name \"{}\" with task.kind \"{}\", for only a network of your own "
         "returns its loss, found \"{}\"; set one of the two",
         origin, model::models::torchscript.name, task.name, config.model.name->name);
}

void check_training(const RunConfig& config, const std::string& origin) {
  if (config.train.epochs == 0 && config.train.steps == 0)
    fail(Kind::usage,
         "{}: expected train.epochs or train.steps above 0, found both 0; set one of them", origin);
  if (config.optimizer.nesterov && config.optimizer.momentum == 0)
    fail(Kind::usage,
         "{}: expected optimizer.momentum above 0 with optimizer.nesterov, found 0; set "
         "optimizer.nesterov to false or a momentum",
         origin);
}

void check_partition(const RunConfig& config, const std::string& origin) {
  const RunConfig::Data::Partition& partition = config.data.partition;
  if (!partition.kind->reshuffles && partition.reshuffle)
    fail(Kind::usage,
         "{}: expected data.partition.kind \"iid\" for data.partition.reshuffle true, found "
         "\"{}\", whose ranks keep their samples; leave one of the two out",
         origin, partition.kind->name);
  check_keys_read(config, "data.partition.kind", *partition.kind, data::PartitionRow::all(),
                  origin);
}

void check_pictures(const RunConfig& config, const std::string& origin) {
  const RunConfig::Data& data = config.data;
  check_keys_read(config, "data.name", *data.name, data::DatasetRow::all(), origin);
  if (data.channels == 2)
    fail(Kind::usage, "{}: expected data.channels 1 or 3, found 2; set one of them", origin);
  const auto channels = static_cast<std::size_t>(data.channels);
  const bool measured = data.mean.empty() && data.deviation.empty();
  if (!measured && (data.mean.size() != channels || data.deviation.size() != channels))
    fail(Kind::usage,
         "{}: expected {} numbers in data.mean and in data.deviation, one for each of "
         "data.channels, "
         "found {} and {}; give both, or none to have them measured",
         origin, channels, data.mean.size(), data.deviation.size());
}

/// What is decided by evaluations needs some.
void check_selection(const RunConfig& config, const std::string& origin) {
  const bool selects = config.checkpoint.best || config.train.early_stopping > 0;
  const std::string_view key = config.checkpoint.best ? "checkpoint.best" : "train.early_stopping";
  if (selects && config.train.is_emulated())
    fail(Kind::usage,
         "{}: expected {} off with train.emulate_compute, which evaluates nothing, found it on; "
         "leave one of the two out",
         origin, key);
  if (config.train.early_stopping > 0 && config.train.evaluate_every == 0)
    fail(Kind::usage,
         "{}: expected train.evaluate_every above 0 with train.early_stopping, which compares "
         "evaluations, found 0; set it to 1",
         origin);
  const auto& synchronization = config.synchronization;
  if (config.train.early_stopping > 0 && synchronization.final_rounds > 0)
    fail(Kind::usage,
         "{}: expected synchronization.final_rounds 0 with train.early_stopping, which stops after "
         "an evaluation, found {}; leave one of the two out",
         origin, synchronization.final_rounds);
  if (config.train.mixup > 0 && config.task.kind->target != data::TargetKind::classes)
    fail(Kind::usage,
         "{}: expected task.kind \"{}\" with train.mixup, which mixes classes, found \"{}\"; leave "
         "train.mixup out",
         origin, model::tasks::classification.name, config.task.kind->name);
  if (config.train.ema == 0) return;
  const sync::AlgorithmRow& algorithm = *synchronization.algorithm;
  if (config.train.is_emulated())
    fail(Kind::usage,
         "{}: expected train.ema 0 with train.emulate_compute, which trains nothing, found {}; "
         "leave it out",
         origin, config.train.ema);
  if (algorithm.push_sum || synchronization.is_asynchronous())
    fail(Kind::usage,
         "{}: expected train.ema 0 with synchronization.algorithm \"{}\", whose models {}, found "
         "{}; leave it out or take another algorithm",
         origin, algorithm.name,
         algorithm.push_sum ? "have weights that change from step to step"
                            : "other ranks change at any time",
         config.train.ema);
}

/// Groups that the update of this config cannot treat apart, or of which it does not read all.
void check_groups(const RunConfig& config, const codec::Properties& compressor,
                  const std::string& origin) {
  const RunConfig::Optimizer& optimizer = config.optimizer;
  for (const ParameterGroup& group : optimizer.groups) {
    const bool momentum = group.momentum && !reads_key(*optimizer.name, "momentum");
    const bool orthogonal = !group.orthogonal && !reads_key(*optimizer.name, "fixed_norm");
    if (!momentum && !orthogonal) continue;
    fail(Kind::usage,
         "{}: expected optimizer.groups without {}, which optimizer.name \"{}\" does not read; "
         "leave it out",
         origin, momentum ? "momentum" : "orthogonal false", optimizer.name->name);
  }
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  const bool directed = algorithm.plain_gradients();
  if ((compressor.forgets_sent || directed) && any_has_momentum(optimizer.groups))
    fail(Kind::usage, "{}: expected optimizer.groups without momentum with {}; leave it out",
         origin,
         directed ? fmt::format("synchronization.algorithm \"{}\", which has none", algorithm.name)
                  : fmt::format("the compressor {}, whose memory has one momentum for all",
                                config.compressor.name->name));
  const bool apart =
      !optimizer.decay_norms ||
      std::ranges::any_of(optimizer.groups, [](const ParameterGroup& group) {
        return group.rate_factor != 1 || group.weight_decay || group.momentum || !group.orthogonal;
      });
  if (!apart) return;
  if (!algorithm.lazy && !compressor.votes) return;
  fail(Kind::usage,
       "{}: expected the same rate and weight decay for all parameters with {}, found "
       "optimizer.groups or optimizer.decay_norms false; leave them out",
       origin,
       compressor.votes ? fmt::format("the compressor {}", config.compressor.name->name)
                        : fmt::format("synchronization.algorithm \"{}\"", algorithm.name));
}

/// With data.partition.epoch "weighted" a rank's loss is multiplied by a number of its own. That
/// moves the result only where the size of a gradient matters and ranks take equally many steps.
void check_weighted(const RunConfig& config, const codec::Properties& compressor,
                    const std::string& origin) {
  if (config.data.partition.epoch != data::LocalEpoch::weighted) return;
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  std::string reason;
  if (!algorithm.exchanges())
    reason =
        fmt::format("synchronization.algorithm \"{}\", whose ranks learn alone", algorithm.name);
  else if (config.synchronization.is_asynchronous())
    reason = fmt::format(
        "synchronization.algorithm \"{}\", whose ranks take different numbers of "
        "steps",
        algorithm.name);
  else if (compressor.votes)
    reason = fmt::format("compressor.name \"{}\", whose votes have no size",
                         config.compressor.name->name);
  else if (config.optimizer.name->is_scale_free && !algorithm.averages_gradients)
    reason = fmt::format(
        "optimizer.name \"{}\", which divides by the size of a rank's own gradient "
        "with synchronization.algorithm \"{}\"",
        config.optimizer.name->name, algorithm.name);
  if (reason.empty()) return;
  fail(Kind::usage,
       "{}: expected data.partition.epoch \"smallest\" or \"largest\" with {}, found \"weighted\"; "
       "leave one of the two out",
       origin, reason);
}

/// Embeddings look up whole numbers.
void check_arrays(const RunConfig& config, const std::string& origin) {
  const RunConfig::Data& d = config.data;
  if (d.integers && d.standardize != data::Standardize::off)
    fail(
        Kind::usage,
        "{}: expected data.standardize \"off\" with data.integers true, found \"{}\"; leave one of "
        "the two out",
        origin, name_of(d.standardize));
  if (config.task.kind->target == data::TargetKind::tokens &&
      d.standardize != data::Standardize::off)
    fail(Kind::usage,
         "{}: expected data.standardize \"off\" with task.kind \"{}\", whose inputs are tokens, "
         "found \"{}\"; leave it out",
         origin, config.task.kind->name, name_of(d.standardize));
}

/// An emulated run has no data set to count epochs by, and no network.
void check_emulation(const RunConfig& config, const codec::Properties& compressor,
                     const std::string& origin) {
  if (!config.train.is_emulated()) return;
  if (config.train.steps == 0)
    fail(Kind::usage,
         "{}: expected train.steps above 0 with train.emulate_compute, which reads no data set to "
         "count epochs by, found 0; set train.steps",
         origin);
  if (!config.model.weights.empty())
    fail(Kind::usage,
         "{}: expected model.weights null with train.emulate_compute, which runs no network, found "
         "\"{}\"; leave it out",
         origin, config.model.weights);
  if (config.task.kind != model::tasks::classification)
    fail(Kind::usage,
         "{}: expected task.kind \"{}\" with train.emulate_compute, which runs no network, found "
         "\"{}\"; leave it out",
         origin, model::tasks::classification.name, config.task.kind->name);
  if (!config.model.name->images_only)
    fail(Kind::usage,
         "{}: expected a network of the program with train.emulate_compute, which knows its "
         "published "
         "images, found model.name \"{}\"; name another",
         origin, config.model.name->name);
  if (compressor.forgets_sent && config.compressor.warmup_epochs > 0)
    fail(Kind::usage,
         "{}: expected compressor.warmup_epochs 0 with train.emulate_compute, whose only epoch "
         "would be warm-up, found {}; set it to 0",
         origin, config.compressor.warmup_epochs);
}

// Below, a step has so many stalls that a slower board says it better.
constexpr double kShortestDistance = 0.01;  // [steps]

std::vector<double> numbers_of(const PerRank& value) {
  if (const double* const same = std::get_if<double>(&value)) return {*same};
  if (const auto* const list = std::get_if<std::vector<double>>(&value)) return *list;
  return {};
}

bool has_positive(const PerRank& value) {
  return std::ranges::any_of(numbers_of(value), [](double x) { return x > 0; });
}

/// Refuses train.emulate_jitter and train.emulate_changes where they mean nothing.
void check_board_speed(const RunConfig& config, const std::string& origin) {
  const RunConfig::Train& train = config.train;
  const auto& jitter = train.emulate_jitter;
  if (!train.is_emulated() &&
      (jitter != RunConfig::Train::EmulateJitter{} || !train.emulate_changes.empty()))
    fail(Kind::usage,
         "{}: expected train.emulate_jitter and train.emulate_changes only with "
         "train.emulate_compute, whose time they change, found it null; set it or leave them out",
         origin);
  const bool stalls = has_positive(jitter.stall_every);
  if (stalls != (jitter.stall_seconds > 0))
    fail(
        Kind::usage,
        "{}: expected train.emulate_jitter.stall_every and .stall_seconds both above 0 or neither, "
        "found one; set the other, too",
        origin);
  for (const double distance : numbers_of(jitter.stall_every))
    if (distance > 0 && distance < kShortestDistance)
      fail(Kind::usage,
           "{}: expected 0 or at least {} steps in train.emulate_jitter.stall_every, found {}; "
           "raise train.emulate_compute instead",
           origin, kShortestDistance, distance);
}

/// Refuses batches of other sizes by rank where a run cannot have them.
void check_batches(const RunConfig& config, const codec::Properties& compressor,
                   const std::string& origin) {
  const RunConfig::Train& train = config.train;
  if (!train.balances() && config.synchronization.quorum == 0 && !train.replay.empty())
    fail(Kind::usage,
         "{}: expected train.batch_sizes \"auto\" or synchronization.quorum with train.replay, "
         "which repeats decisions, found a run that decides nothing; leave train.replay out",
         origin);
  if (!train.has_batches_by_rank()) return;
  if (train.balances() && train.batch_size < train.batch_least)
    fail(Kind::usage,
         "{}: expected train.batch_size, the mean batch of all ranks with train.batch_sizes "
         "\"auto\", of at least train.batch_least, {}, found {}; raise it, or lower "
         "train.batch_least",
         origin, train.batch_least, train.batch_size);
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.averages_gradients)
    fail(Kind::usage,
         "{}: expected synchronization.algorithm \"allreduce\" with train.batch_sizes, whose "
         "gradients are weighted by batch, found \"{}\"; set one of the two to its default",
         origin, algorithm.name);
  if (compressor.votes)
    fail(
        Kind::usage,
        "{}: expected a compressor that keeps the size of a gradient with train.batch_sizes, found "
        "\"{}\", whose votes have no weight; take another compressor, such as ef-signsgd",
        origin, config.compressor.name->name);
  const RunConfig::Data::Partition& partition = config.data.partition;
  if (train.is_emulated() || partition.kind->plan == nullptr || partition.reshuffle) return;
  fail(Kind::usage,
       "{}: expected data.partition.kind \"iid\" with data.partition.reshuffle true, or \"local\", "
       "for train.batch_sizes, which deals one permutation an epoch to all ranks, found kind "
       "\"{}\"{}; leave one of them out",
       origin, partition.kind->name, partition.kind->reshuffles ? " without reshuffling" : "");
}

/// Refuses a run that is to choose its recipe where nothing tells which is the best.
void check_tuning(const RunConfig& config, const std::string& origin) {
  const RunConfig::Train& train = config.train;
  if (train.tunes() != (train.tune_target > 0))
    fail(Kind::usage,
         "{}: expected train.tune \"auto\" and a train.tune_target above 0 together, found one of "
         "them; set the other, too",
         origin);
  if (!train.tunes()) return;
  if (train.is_emulated() || config.task.kind != model::tasks::classification)
    fail(Kind::usage,
         "{}: expected a network that is trained for task.kind \"{}\" with train.tune \"auto\", "
         "whose target is an accuracy, found {}; leave train.tune out",
         origin, model::tasks::classification.name,
         train.is_emulated() ? std::string("train.emulate_compute")
                             : fmt::format("\"{}\"", config.task.kind->name));
  if (config.checkpoint.memory_seconds > 0)
    fail(Kind::usage,
         "{}: expected checkpoint.memory_seconds 0 with train.tune \"auto\", whose choice is in "
         "the run folder of rank 0's host, found {}; take the config.json of a tuned run",
         origin, config.checkpoint.memory_seconds);
}

/// Refuses a memory where grades are unbiased, and none where they need one.
void check_feedback_of_grades(const RunConfig& config, const std::string& cause,
                              const std::string& origin) {
  if (!config.compressor.why_not().empty()) return;  // is refused later, with its reason
  const ErrorFeedback feedback = config.synchronization.error_feedback;
  const bool remembers = config.compressor.make()->properties().needs_feedback;
  if (remembers && (feedback == ErrorFeedback::automatic || feedback == ErrorFeedback::ef14))
    return;
  if (remembers)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" or \"ef14\" with rates in "
         "compressor.menu, whose rounding to nearest needs a memory, found \"{}\"; leave it out",
         origin, name_of(feedback));
  if (feedback == ErrorFeedback::ef14 || feedback == ErrorFeedback::ef21)
    fail(Kind::usage,
         "{}: expected synchronization.error_feedback \"auto\" or \"none\" with {}, whose grades "
         "keep the mean unbiased, found \"{}\"; leave it out, or take the compressor \"auto\" "
         "without a compressor.menu, or with one of rates",
         origin, cause, name_of(feedback));
}

/// Refuses what cannot be combined with choosing grades.
void check_auto(const RunConfig& config, const std::string& origin) {
  const CompressorConfig& compressor = config.compressor;
  if (!compressor.adapts_grades()) {
    if (!compressor.replay.empty())
      fail(Kind::usage,
           "{}: expected compressor.name \"auto\", compressor.bits \"auto\" or "
           "compressor.elasticity \"measured\" with compressor.replay, which repeats decisions "
           "about grades, found the compressor \"{}\" as it is; leave compressor.replay out",
           origin, compressor.name->name);
    return;
  }
  const std::string cause = setting_of_grades(compressor);
  if (compressor.noise_cap < compressor.noise_share)
    fail(Kind::usage,
         "{}: expected compressor.noise_cap of at least compressor.noise_share {}, found {}; raise "
         "it",
         origin, compressor.noise_share, compressor.noise_cap);
  if (compressor.observe_every < 2 && !config.data.partition.kind->reshuffles)
    fail(Kind::usage,
         "{}: expected compressor.observe_every of at least 2 with data.partition.kind \"{}\", "
         "where pairs of steps are observed, found {}; raise it",
         origin, config.data.partition.kind->name, compressor.observe_every);
  const auto& s = config.synchronization;
  if (!s.algorithm->averages_gradients)
    fail(
        Kind::usage,
        "{}: expected synchronization.algorithm \"allreduce\" with {}, which measures the noise of "
        "gradients, found \"{}\"; set one of the two",
        origin, cause, s.algorithm->name);
  check_feedback_of_grades(config, cause, origin);
}

void check_schedule(const RunConfig& config, const std::string& origin) {
  const RunConfig::Schedule& schedule = config.schedule;
  check_keys_read(config, "schedule.kind", *schedule.kind, optim::ScheduleRow::all(), origin);
  if (reads_key(*schedule.kind, "milestones") && schedule.milestones.empty())
    fail(Kind::usage,
         "{}: expected schedule.milestones with schedule.kind \"{}\", found none; list the epochs "
         "at which the rate drops",
         origin, schedule.kind->name);
  const auto& epochs = schedule.milestones;
  if (std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>()) != epochs.end())
    fail(Kind::usage, "{}: expected increasing schedule.milestones, found [{}]; sort them", origin,
         fmt::join(epochs, ", "));
}

void check_collective(const RunConfig& config, const codec::Compressor& compressor,
                      const std::string& origin) {
  const collective::CollectiveRow& row = *config.synchronization.collective;
  if (const std::string_view why = why_not(row, compressor); !why.empty())
    fail(Kind::usage, "{}: {}", origin, refusal(row, compressor, why));
}

void check_without_exchange(const RunConfig& config, const codec::Properties& properties,
                            const std::string& origin) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (algorithm.exchanges() || properties.lossless) return;
  fail(Kind::usage,
       "{}: expected the compressor none for synchronization.algorithm \"{}\" (nothing is sent), "
       "found \"{}\"; set synchronization.algorithm to \"allreduce\"",
       origin, algorithm.name, config.compressor.name->name);
}

void check_signum(const RunConfig& config, const codec::Properties& compressor,
                  const std::string& origin) {
  if (compressor.votes && config.optimizer.nesterov)
    fail(Kind::usage,
         "{}: expected optimizer.nesterov false for the compressor {}, whose momentum comes before "
         "the vote, found true; set it to false",
         origin, config.compressor.name->name);
}

void check_device(const RunConfig& config, const std::string& origin) {
  if (config.device != Device::cuda) return;
  const std::string key = processor_only(config);
  if (key.empty()) return;
  fail(Kind::usage,
       "{}: expected device \"cpu\" with {}, which is for the processor alone, found \"cuda\"; set "
       "device to \"cpu\", or leave {} out",
       origin, key, key.substr(0, key.find(' ')));
}

}  // namespace

std::string processor_only(const RunConfig& config) {
  if (config.train.is_emulated()) return "train.emulate_compute";
  if (config.model.precision != model::Precision::fp32)
    return fmt::format("model.precision \"{}\"", name_of(config.model.precision));
  if (config.model.normalization->by_range)
    return fmt::format("model.normalization \"{}\"", config.model.normalization->name);
  return {};
}

void check_combinations(const RunConfig& config, const std::string& origin) {
  if (const std::string why = config.compressor.why_not(); !why.empty())
    fail(Kind::usage, "{}: {}", origin, why);
  const auto compressor = config.compressor.make();
  const codec::Properties properties = compressor->properties();
  check_model(config, origin);
  check_device(config, origin);
  check_task(config, origin);
  check_training(config, origin);
  check_optimizer(config, properties, origin);
  check_partition(config, origin);
  check_pictures(config, origin);
  check_weighted(config, properties, origin);
  check_arrays(config, origin);
  check_emulation(config, properties, origin);
  check_board_speed(config, origin);
  check_batches(config, properties, origin);
  check_tuning(config, origin);
  check_selection(config, origin);
  check_groups(config, properties, origin);
  check_schedule(config, origin);
  check_auto(config, origin);
  check_without_exchange(config, properties, origin);
  check_collective(config, *compressor, origin);
  check_signum(config, properties, origin);
  check_topology(config.synchronization.topology, origin);
  check_synchronization(config, properties, origin);
  check_error_feedback(config, *compressor, origin);
}

}  // namespace eqt::config
