// SPDX-License-Identifier: Apache-2.0
#include "config/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "codec/catalogue.hpp"
#include "config/auto_checks.hpp"
#include "config/batch_checks.hpp"
#include "config/build_topology.hpp"
#include "config/device_checks.hpp"
#include "config/emulation_checks.hpp"
#include "config/feedback_checks.hpp"
#include "config/gossip_checks.hpp"
#include "config/keys_read.hpp"
#include "core/error.hpp"

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
  if (config.train.mixup > 0 && config.task.kind != model::tasks::classification)
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

/// Groups that the update of this config cannot treat apart.
void check_groups(const RunConfig& config, const codec::Properties& compressor,
                  const std::string& origin) {
  const RunConfig::Optimizer& optimizer = config.optimizer;
  const bool apart = !optimizer.decay_norms ||
                     std::ranges::any_of(optimizer.groups, [](const ParameterGroup& group) {
                       return group.rate_factor != 1 || group.weight_decay;
                     });
  if (!apart) return;
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  const bool directed =
      algorithm.plain_gradients() || optimizer.momentum_kind == sync::MomentumKind::quasi_global;
  if (!directed && !compressor.votes) return;
  fail(Kind::usage,
       "{}: expected the same rate and weight decay for all parameters with {}, found "
       "optimizer.groups or optimizer.decay_norms false; leave them out",
       origin,
       compressor.votes ? fmt::format("the compressor {}", config.compressor.name->name)
       : algorithm.plain_gradients()
           ? fmt::format("synchronization.algorithm \"{}\"", algorithm.name)
           : std::string("optimizer.momentum_kind \"quasi-global\""));
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

}  // namespace

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
  check_selection(config, origin);
  check_groups(config, properties, origin);
  check_schedule(config, origin);
  check_auto(config, origin);
  check_without_exchange(config, properties, origin);
  check_collective(config, *compressor, origin);
  check_signum(config, properties, origin);
  check_topology(config.synchronization.topology, origin);
  check_gossip(config, properties, origin);
  check_error_feedback(config, *compressor, origin);
}

}  // namespace eqt::config
