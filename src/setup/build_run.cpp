#include "setup/build_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/simd.hpp"
#include "comm/host_facts.hpp"
#include "config/gossip_checks.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "model/emulated_replica.hpp"
#include "setup/build_partition.hpp"
#include "setup/build_synchronization.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::setup {

int threads_for(const config::RunConfig& config, const comm::Communicator& comm, int simulate) {
  if (config.threads_per_rank > 0) return config.threads_per_rank;
  const auto ranks = static_cast<int>(comm.ranks_on_this_host().size());
  return comm::fair_threads(std::max(simulate, ranks));
}

namespace {

void build_batches(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                   data::PartitionPlan plan, Run& run) {
  const data::BatchLoader::Options options = {.batch_size = config.train.batch_size,
                                              .batches_per_epoch = run.plan.steps_per_epoch,
                                              .augment = config.data.augment,
                                              .seed = config.seed};
  const std::size_t samples = run.data.train->size();
  if (simulate > 0) {
    std::vector<std::unique_ptr<data::Partition>> partitions;
    for (int w = 0; w < simulate; ++w)
      partitions.push_back(make_partition(config, plan, samples, w));
    run.simulation = make_simulation(std::move(partitions), *run.data.train, options);
    return;
  }
  run.partition = make_partition(config, plan, samples, comm.rank());
  run.batches = std::make_unique<data::BatchLoader>(*run.data.train, *run.partition, options);
}

void build_data(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                Run& run) {
  run.data = data::open_dataset({.name = config.data.name,
                                 .path = config.data.path,
                                 .limit_train = config.data.limit_train,
                                 .limit_test = config.data.limit_test,
                                 .seed = config.seed});
  const std::vector<int> labels = data::labels_of(*run.data.train);
  const int classes = run.data.train->classes();
  const int ranks = simulate > 0 ? simulate : comm.size();
  data::PartitionPlan plan = plan_partition(config, labels, classes, ranks);
  run.partition_record = describe_partition(config.data.partition, plan, labels, classes);
  run.shards_fingerprint = plan.fingerprint();
  const std::size_t batches = plan.smallest_shard() / config.train.batch_size;
  run.plan.steps_per_epoch = batches;
  build_batches(config, comm, simulate, std::move(plan), run);
  run.plan.total_steps = config.train.steps > 0
                             ? config.train.steps
                             : checked_product<std::uint64_t>({config.train.epochs, batches},
                                                              Kind::usage, "steps (train.epochs)");
  run.plan.batch_size = config.train.batch_size;
  run.plan.evaluate_every = config.train.evaluate_every;
}

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

void plan_checkpoints(const config::RunConfig& config, const std::optional<SavedPosition>& from,
                      train::Plan& plan) {
  plan.checkpoint_every_steps = config.checkpoint.every_steps;
  plan.checkpoint_every_epochs = config.checkpoint.every_epochs;
  if (!from) return;
  plan.resumes = true;
  if (!plan.emulated) go_on_from(*from, config, plan);
  if (plan.total_steps >= from->step) return;
  fail(Kind::usage,
       "train.steps: expected at least the {} steps of the checkpoint, found {}; raise it or leave "
       "it out",
       from->step, plan.total_steps);
}

/// This rank's seconds per step.
double emulated_seconds(const config::PerRank& seconds, const comm::Communicator& comm) {
  if (const double* const same = std::get_if<double>(&seconds)) return *same;
  const auto& list = std::get<std::vector<double>>(seconds);
  if (list.size() != static_cast<std::size_t>(comm.size())) {
    fail(Kind::usage,
         "train.emulate_compute: expected one number, or a list of {}, one per rank, found a list "
         "of {}; start as many ranks as it has numbers",
         comm.size(), list.size());
  }
  return list[static_cast<std::size_t>(comm.rank())];
}

/// A board that is not there: no data set, and the layout of the network as it was published.
void build_emulation(const config::RunConfig& config, const comm::Communicator& comm, Run& run) {
  const double seconds = emulated_seconds(config.train.emulate_compute, comm);
  run.plan.steps_per_epoch = run.plan.total_steps = config.train.steps;
  run.plan.batch_size = config.train.batch_size;
  run.plan.emulated = true;
  run.threads = threads_for(config, comm);
  model::set_threads(1);
  model::ModelOptions options = model::published_options(config.model.name);
  options.normalization = config.model.normalization;
  options.norm_groups = config.model.norm_groups;
  options.shortcut = config.model.shortcut;
  options.seed = config.seed;
  run.replica = model::make_emulated_replica(model::make_replica(options),
                                             {.step_seconds = seconds,
                                              .image_side = options.input.height,
                                              .seed = config.seed,
                                              .rank = comm.rank()});
}

void build_model(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                 Run& run) {
  run.threads = threads_for(config, comm, simulate);
  model::set_threads(run.threads);
  run.replica = model::make_replica({.name = config.model.name,
                                     .input = run.data.train->shape(),
                                     .classes = run.data.train->classes(),
                                     .normalization = config.model.normalization,
                                     .norm_groups = config.model.norm_groups,
                                     .shortcut = config.model.shortcut,
                                     .seed = config.seed,
                                     .rank = comm.rank()});
  // The other ranks receive rank 0's parameters, so its node alone needs the file.
  if (!config.model.weights.empty() && comm.rank() == 0) {
    run.replica->load_weights(config.model.weights);
  }
  if (run.simulation != nullptr) seat_workers(*run.replica, *run.simulation);
}

/// Slices whose gradient comes with DGC's momentum in it.
std::vector<TensorSlice> momentum_corrected(const config::RunConfig& config, const Run& run) {
  std::vector<TensorSlice> corrected;
  if (config.compressor.name != "dgc") return corrected;
  const bool whole_model = config.compressor.granularity == "model";
  for (const TensorSlice& slice : run.replica->layout()) {
    if (whole_model || pipeline::is_compressed(slice, config.compressor.skip_below)) {
      corrected.push_back(slice);
    }
  }
  return corrected;
}

void build_update(const config::RunConfig& config, Run& run) {
  // A direction brings its own momentum and weight decay.
  const bool plain =
      run.direction != nullptr || (run.gossip != nullptr && run.gossip->direction != nullptr);
  // Signum's momentum comes before the vote, and its weight decay is in none.
  const bool votes = run.compressor->properties().votes;
  run.optimizer = optim::make_sgd(
      run.replica->parameters().size(),
      {.momentum = plain || votes ? 0.0f : static_cast<float>(config.optimizer.momentum),
       .nesterov = !plain && config.optimizer.nesterov,
       .weight_decay = plain ? 0.0f : static_cast<float>(config.optimizer.weight_decay),
       .momentum_corrected = momentum_corrected(config, run)});
  using Kind = optim::ScheduleOptions::Kind;
  const std::string& kind = config.schedule.kind;
  run.schedule = optim::make_schedule({.kind = kind == "cosine" ? Kind::cosine
                                               : kind == "step" ? Kind::step
                                                                : Kind::constant,
                                       .learning_rate = config.optimizer.learning_rate,
                                       .milestones = config.schedule.milestones,
                                       .factor = config.schedule.factor,
                                       .warmup_epochs = config.schedule.warmup_epochs,
                                       .steps_per_epoch = run.plan.steps_per_epoch,
                                       .total_steps = run.plan.position(run.plan.total_steps)});
}

}  // namespace

std::string Run::collective_name() const {
  if (simulation != nullptr) return std::string(simulation->mean->name());
  return collective == nullptr ? "none" : std::string(collective->name());
}

config::RunConfig settled_config(const config::RunConfig& config, const Run& run) {
  config::RunConfig settled = config;
  if (run.choice) settled.synchronization.collective = run.choice->collective;
  if (run.simulation != nullptr && run.simulation->mean != nullptr)
    settled.synchronization.collective = run.collective_name();
  return settled;
}

std::unique_ptr<Run> build_run(const config::RunConfig& config, comm::Communicator& comm,
                               bool communication_thread, const std::optional<train::Fault>& fault,
                               const std::optional<SavedPosition>& from, int simulate) {
  auto run = std::make_unique<Run>();
  run->plan.fault = fault;
  run->plan.paranoid = config.train.paranoid;
  run->plan.rollback_factor = config.train.rollback_factor;
  run->divergence = std::make_unique<train::Divergence>(config.train.on_divergence == "rollback");
  comm.agree_after([&] {
    require_thread(config, communication_thread);
    if (config.train.is_emulated()) {
      build_emulation(config, comm, *run);
    } else {
      comm.beat("loading of the data");
      build_data(config, comm, simulate, *run);
      comm.beat("building of the model");
      build_model(config, comm, simulate, *run);
    }
    plan_checkpoints(config, from, run->plan);
  });
  comm.beat("comparison of the data");
  comm.agree_after([&] {
    if (run->data.train != nullptr) run->data_facts = data_facts(run->data);
  });
  require_same_data(run->data_facts, comm);
  require_same_shards(run->shards_fingerprint, comm);
  std::vector<pipeline::FusionBucket> plan;
  comm.beat("building of the synchronization");
  comm.agree_after([&] {
    build_compressor(config, comm, *run);
    plan = make_plan(config, run->replica->layout(), *run->compressor);
  });
  if (averages(config)) run->choice = choose_by_cost(config, comm, *run, plan);
  if (run->choice) {
    comm.agree_after([&] {
      plan = make_plan(settled_config(config, *run), run->replica->layout(), *run->compressor);
    });
  }
  if (config::gossip_traits(config.synchronization.algorithm).mixes) {
    run->buckets = std::move(plan);
    build_gossip_averaging(config, comm, communication_thread, *run);
    comm.agree_after([&] { build_update(config, *run); });
    return run;
  }
  comm.agree_after([&] {
    build_averaging(settled_config(config, *run), comm, communication_thread, std::move(plan),
                    *run);
    build_update(config, *run);
  });
  return run;
}

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
  record.ranks = run.simulation != nullptr ? run.simulation->count() : comm.size();
  record.simulated = run.simulation != nullptr;
  record.threads_per_rank = run.threads;
  record.parameters = run.replica->parameters().size();
  record.emulated = run.plan.emulated;
  record.train_samples = run.plan.emulated ? 0 : run.data.train->size();
  record.test_samples = run.plan.emulated ? 0 : run.data.test->size();
  record.partition = run.partition_record;
  record.steps_per_epoch = run.plan.steps_per_epoch;
  record.total_steps = run.plan.total_steps;
  record.model = config.model.name;
  record.dataset = run.plan.emulated ? "drawn gradients" : config.data.name;
  record.compressor = config.compressor.name;
  record.collective = run.collective_name();
  record.algorithm = config.synchronization.algorithm;
  record.config_json = config::resolved_json(settled_config(config, run));
  record.images_per_step = config.train.batch_size * static_cast<std::uint64_t>(record.ranks);
  return record;
}

}  // namespace eqt::setup
