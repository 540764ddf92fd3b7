// SPDX-License-Identifier: Apache-2.0
#include "setup/build_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "adaptation/grade_trial.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "codec/plugin.hpp"
#include "codec/simd.hpp"
#include "config/checks.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "setup/build_model.hpp"
#include "setup/look_at_data.hpp"
#include "setup/same_everywhere.hpp"
#include "sync/direction.hpp"

namespace eqt::setup {
namespace {

/// Goes on at the batch of this partition that is nearest to where the saved one stood, in the same
/// epoch: what an epoch has left over is then visited once, up to a batch.
void go_on_from(const SavedPosition& from, const config::RunConfig& config, train::Plan& plan) {
  const std::uint64_t batch =
      std::min((from.batch * plan.steps_per_epoch + from.batches / 2) / from.batches,
               plan.steps_per_epoch - 1);
  const std::uint64_t position = from.epoch * plan.steps_per_epoch + batch;
  plan.shift = static_cast<std::int64_t>(position) - static_cast<std::int64_t>(from.step);
  if (config.train.steps == 0)
    plan.total_steps =
        from.step + (std::max(config.train.epochs * plan.steps_per_epoch, position) - position);
}

StepId steps_of(const config::RunConfig& config, StepId steps_per_epoch) {
  if (config.train.steps > 0) return config.train.steps;
  return checked_product<std::uint64_t>({config.train.epochs, steps_per_epoch}, Kind::usage,
                                        "steps (train.epochs)");
}

/// Returns what the trainer is told of this config.
train::Plan make_train_plan(const config::RunConfig& config, int ranks, StepId steps_per_epoch,
                            const std::optional<SavedPosition>& from) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  train::Plan plan;
  plan.emulated = config.train.is_emulated();
  plan.steps_per_epoch = steps_per_epoch;
  plan.total_steps = steps_of(config, steps_per_epoch);
  plan.batch_size =
      static_cast<double>(samples_of_all_ranks(config, ranks) * config.train.accumulate) / ranks;
  plan.accumulate = config.train.accumulate;
  plan.clip_norm = config.optimizer.clip_norm;
  plan.early_stopping = config.train.early_stopping;
  plan.keeps_best = config.checkpoint.best;
  plan.ema = config.train.ema;
  if (!plan.emulated) plan.evaluate_every = config.train.evaluate_every;
  plan.synchronizes = algorithm.exchanges();
  plan.replicas_equal = algorithm.shares_model();
  plan.ends_equal = algorithm.averages_models;
  plan.asynchronous = config.synchronization.is_asynchronous();
  plan.final_rounds = config.synchronization.final_rounds;
  plan.paranoid = config.train.paranoid;
  plan.rollback_factor = config.train.rollback_factor;
  plan.checkpoint_every_steps = config.checkpoint.every_steps;
  plan.checkpoint_every_epochs = config.checkpoint.every_epochs;
  if (!from) return plan;
  plan.resumes = true;
  if (!plan.emulated) go_on_from(*from, config, plan);
  if (plan.total_steps >= from->step) return plan;
  fail(Kind::usage,
       "train.steps: expected at least the {} steps of the checkpoint, found {}; raise it or leave "
       "it out",
       from->step, plan.total_steps);
}

/// Slices whose gradient comes with momentum in it, DGC's or that of error feedback.
std::vector<TensorSlice> momentum_corrected(const config::RunConfig& config,
                                            const codec::Properties& compressor,
                                            const Layout& layout) {
  std::vector<TensorSlice> corrected;
  if (!compressor.forgets_sent && !config::corrects_momentum(config, compressor)) return corrected;
  const bool whole_model = config.compressor.granularity == codec::Granularity::model;
  for (const TensorSlice& slice : layout) {
    if (whole_model || pipeline::is_compressed(slice, config.compressor.skip_below)) {
      corrected.push_back(slice);
    }
  }
  return corrected;
}

std::unique_ptr<optim::Optimizer> build_optimizer(const config::RunConfig& config, const Run& run) {
  const Layout& layout = run.model.replica->layout();
  const config::RunConfig::Optimizer& o = config.optimizer;
  // An algorithm with a direction brings its own momentum and weight decay.
  const bool plain = run.sync.algorithm.directs;
  // Signum's momentum comes before the vote, and its weight decay is in none.
  const codec::Properties compressor = run.messages.compressor->properties();
  UpdateRules rules = update_rules(config, layout);
  return o.name->make(layout,
                      {.momentum = plain || compressor.votes ? 0.0 : o.momentum,
                       .nesterov = !plain && o.nesterov,
                       .beta1 = o.beta1,
                       .beta2 = o.beta2,
                       .epsilon = o.epsilon,
                       .iterations = o.iterations,
                       .fixed_norm = o.fixed_norm,
                       .weight_decay = plain ? 0.0 : o.weight_decay,
                       .momentum_corrected = momentum_corrected(config, compressor, layout),
                       .rules = plain ? sync::rates_alone(std::move(rules)) : std::move(rules)});
}

std::unique_ptr<optim::Schedule> build_schedule(const config::RunConfig& config,
                                                const train::Plan& plan) {
  return optim::make_schedule(
      {.kind = config.schedule.kind,
       .learning_rate = config.optimizer.learning_rate,
       .milestones = config.schedule.milestones,
       .factor = config.schedule.factor,
       .warmup_epochs = config.schedule.warmup_epochs,
       .steps_per_epoch = plan.steps_per_epoch,
       // On more ranks few steps may be none, of a run that has none left.
       .total_steps = std::max<StepId>(1, plan.position(plan.total_steps))});
}

/// The sets that a rank opens, and what ranks with their own have agreed on.
struct OpenedData {
  std::vector<data::DatasetPair> own;
  std::optional<LocalData> local;
};

/// Ranks that have sets of their own open them and agree. Collective.
OpenedData open_local_data(const config::RunConfig& config, comm::Communicator& comm,
                           int simulate) {
  OpenedData opened;
  if (config.train.is_emulated() || !has_local_data(config)) return opened;
  comm.heartbeat("loading of the data");
  comm.agree_after([&] { opened.own = open_sets(config, comm, simulate); });
  opened.local = agree_on_local_data(config, comm, opened.own);
  return opened;
}

void build_data_and_model(const config::RunConfig& config, comm::Communicator& comm, int simulate,
                          const model::Placement& placement, OpenedData opened, Run& run) {
  if (config.train.is_emulated()) {
    run.data.steps_per_epoch = config.train.steps;
    run.model = build_emulated_model(config, comm);
    return;
  }
  comm.heartbeat("loading of the data");
  if (!opened.local) opened.own = open_sets(config, comm, simulate);
  run.data = build_data(config, comm, simulate, std::move(opened.own), std::move(opened.local));
  comm.heartbeat("building of the model");
  run.model = build_model(config, comm, simulate, placement, run.data);
}

/// @throws Error{data} on all ranks where they hold others. Collective.
void compare_data(comm::Communicator& comm, DataParts& data) {
  comm.heartbeat("comparison of the data");
  comm.agree_after([&] {
    if (data.sets.train != nullptr) data.facts = data_facts(data.sets);
  });
  if (data.local) {
    data.facts = facts_of_all(data.facts, comm);
    return;
  }
  require_same_data(data.facts, comm);
  require_same_shards(data.shards_fingerprint, comm);
}

/// Two versions of a network of the user's own would fail later, in sentences about messages.
/// @throws Error{data} on all ranks where they hold others. Collective.
void compare_networks(const config::RunConfig& config, const ModelParts& model,
                      comm::Communicator& comm) {
  if (!config.model.name->users_own) return;
  require_same_facts({{"model.path", fmt::format("a file of hash {:016x}", model.file_hash)}},
                     "the network", "give every host the same file", comm);
}

}  // namespace

std::string Run::collective_name() const {
  if (data.simulation != nullptr) return std::string(data.simulation->mean->row().name);
  return sync.algorithm.collective;
}

config::RunConfig settled_config(const config::RunConfig& config, const Run& run) {
  config::RunConfig settled = settled_config(config, run.messages.choice);
  if (run.data.simulation != nullptr && run.data.simulation->mean != nullptr)
    settled.synchronization.collective = run.data.simulation->mean->row();
  config::ErrorFeedback& feedback = settled.synchronization.error_feedback;
  if (feedback == config::ErrorFeedback::automatic && config::gains_by_feedback(config))
    feedback = config::ErrorFeedback::ef14;
  return settled;
}

std::unique_ptr<Run> build_run(const config::RunConfig& config, comm::Communicator& comm,
                               bool communication_thread, const std::optional<comm::Fault>& fault,
                               const std::optional<SavedPosition>& from, int simulate,
                               const model::Placement& placement) {
  auto run = std::make_unique<Run>();
  run->divergence = std::make_unique<sync::Divergence>(config.train.on_divergence ==
                                                       config::OnDivergence::rollback);
  OpenedData opened = open_local_data(config, comm, simulate);
  comm.agree_after([&] {
    require_thread(config, communication_thread);
    build_data_and_model(config, comm, simulate, placement, std::move(opened), *run);
    run->plan = make_train_plan(config, simulate > 0 ? simulate : comm.size(),
                                run->data.steps_per_epoch, from);
    run->balancer = simulate > 0 ? nullptr : build_balancer(config, comm);
    run->update.schedule = build_schedule(config, run->plan);
    run->plan.fault = fault;
    run->plan.measures = run->model.measures;
    run->plan.test_views = test_views(config, *run->data.sets.test);
    run->plan.loss_weights = run->data.loss_weights;
    // With an epoch by weights, batches are part of no weight: neither in the balancer nor here.
    if (config.train.has_batches_by_rank() &&
        config.data.partition.epoch != data::LocalEpoch::weighted)
      run->plan.buffer_weights = run->data.loss_weights;
    run->plan.own_test_set =
        run->data.local && simulate == 0 && config.data.partition.test == data::LocalTest::own;
  });
  compare_data(comm, run->data);
  compare_networks(config, run->model, comm);
  comm.heartbeat("building of the synchronization");
  run->messages = build_messages(config, run->model.replica->layout(), run->model.threads,
                                 run->data.simulation != nullptr, comm);
  if (config.output.timeline > 0)
    run->timeline = std::make_unique<sync::Timeline>(config.output.timeline);
  const SyncBase base = {.comm = comm,
                         .messages = run->messages,
                         .replica = *run->model.replica,
                         .divergence = *run->divergence,
                         .plan = run->plan,
                         .schedule = *run->update.schedule,
                         .simulation = run->data.simulation.get(),
                         .communication_thread = communication_thread,
                         .timeline = run->timeline.get(),
                         .balancer = run->balancer.get(),
                         .placement = placement};
  run->sync = build_synchronization(settled_config(config, *run), base);
  comm.agree_after([&] { run->update.optimizer = build_optimizer(config, *run); });
  return run;
}

namespace {

/// Empty: nothing chooses them.
std::optional<metrics::GradesRecord> grades_of(const config::RunConfig& config, const Run& run,
                                               int ranks) {
  codec::Compressor& compressor = *run.messages.compressor;
  const codec::MixedGrades* const mixed = compressor.mixed_grades();
  if (mixed == nullptr || ranks < 2) return {};
  metrics::GradesRecord record{.menu = mixed->names(), .tensors = {}, .start = mixed->start()};
  const Layout& layout = run.model.replica->layout();
  const auto plan = make_plan(settled_config(config, run), layout, compressor);
  for (const adaptation::SliceParts& slice : adaptation::compressed_slices(plan))
    record.tensors.push_back(slice_name(layout, slice.slice));
  return record;
}

}  // namespace

metrics::RunRecord describe(const config::RunConfig& config, const Run& run,
                            const comm::Communicator& comm) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  metrics::RunRecord record;
  record.name = config.name;
  record.version = version();
  record.torch = model::torch_description();
  record.mpi = comm::mpi_description();
  record.host = host.data();
  record.simd = codec::simd_target();
  record.ranks = run.data.simulation != nullptr ? run.data.simulation->count() : comm.size();
  record.simulated = run.data.simulation != nullptr;
  record.threads_per_rank = run.model.threads;
  record.parameters = run.model.replica->parameters().size();
  record.emulated = run.plan.emulated;
  record.train_samples = run.data.train_samples;
  record.test_samples = run.data.test_samples;
  record.partition = run.data.partition_record;
  record.steps_per_epoch = run.plan.steps_per_epoch;
  record.total_steps = run.plan.total_steps;
  record.model = config.model.name->name;
  record.dataset = run.plan.emulated ? "drawn gradients" : config.data.name->name;
  record.compressor = config.compressor.name->name;
  record.collective = run.collective_name();
  record.algorithm = config.synchronization.algorithm->name;
  record.task = config.task.kind->name;
  record.metrics = run.model.measures.of(nullptr);
  for (const codec::LoadedPlugin& plugin : codec::loaded_plugins())
    record.plugins.push_back({plugin.name, plugin.path, plugin.hash});
  record.config_json = config::resolved_json(settled_config(config, run));
  record.images_per_step = samples_of_all_ranks(config, record.ranks) * config.train.accumulate;
  if (const auto use = run.model.replica->int8_use(config.train.batch_size))
    record.int8 = {.kernels = std::string(use->kernels),
                   .arena_bytes = use->arena_bytes,
                   .saved_bytes = use->saved_bytes};
  record.grades = grades_of(config, run, record.ranks);
  return record;
}

}  // namespace eqt::setup
