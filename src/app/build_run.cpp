#include "app/build_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/build_partition.hpp"
#include "app/config/gossip_checks.hpp"
#include "app/early_stop.hpp"
#include "app/same_everywhere.hpp"
#include "app/verbs.hpp"
#include "codec/levels/adaptive_codec.hpp"
#include "codec/parallel.hpp"
#include "codec/simd.hpp"
#include "comm/host_facts.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "model/emulated_replica.hpp"
#include "pipeline/plan.hpp"
#include "train/asynchronous_gossip.hpp"
#include "train/gossip_averaging.hpp"
#include "train/gradient_averaging.hpp"
#include "train/local_sgd.hpp"
#include "train/periodic_gossip.hpp"

namespace eqt::app {

int threads_for(const RunConfig& config, const comm::Communicator& comm, int simulate) {
  if (config.threads_per_rank > 0) return config.threads_per_rank;
  const auto ranks = static_cast<int>(comm.ranks_on_this_host().size());
  return comm::fair_threads(std::max(simulate, ranks));
}

namespace {

void build_batches(const RunConfig& config, const comm::Communicator& comm, int simulate,
                   data::PartitionPlan plan, Run& run) {
  const data::BatchLoader::Options options = {.batch_size = config.train.batch_size,
                                              .batches_per_epoch = run.plan.steps_per_epoch,
                                              .augment = config.data.augment,
                                              .seed = config.seed};
  if (simulate > 0) {
    run.simulation = make_simulation(std::move(plan), *run.data.train, options);
    return;
  }
  run.partition = std::make_unique<data::ShardPartition>(
      std::move(plan.shards[static_cast<std::size_t>(comm.rank())]), comm.rank(), config.seed);
  run.batches = std::make_unique<data::BatchLoader>(*run.data.train, *run.partition, options);
}

void build_data(const RunConfig& config, const comm::Communicator& comm, int simulate, Run& run) {
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
void go_on_from(const SavedPosition& from, const RunConfig& config, train::Plan& plan) {
  const std::uint64_t batch =
      std::min((from.batch * plan.steps_per_epoch + from.batches / 2) / from.batches,
               plan.steps_per_epoch - 1);
  const std::uint64_t position = from.epoch * plan.steps_per_epoch + batch;
  plan.shift = static_cast<std::int64_t>(position) - static_cast<std::int64_t>(from.step);
  if (config.train.steps == 0)
    plan.total_steps =
        from.step + (std::max(config.train.epochs * plan.steps_per_epoch, position) - position);
}

void plan_checkpoints(const RunConfig& config, const std::optional<SavedPosition>& from,
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
double emulated_seconds(const PerRank& seconds, const comm::Communicator& comm) {
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
void build_emulation(const RunConfig& config, const comm::Communicator& comm, Run& run) {
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

void build_model(const RunConfig& config, const comm::Communicator& comm, int simulate, Run& run) {
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

}  // namespace

std::unique_ptr<collective::GradientMemory> make_memory(const RunConfig& config, int ranks,
                                                        const codec::Compressor& compressor,
                                                        std::size_t count) {
  if (compressor.id() == codec::CodecId::dgc) {
    return collective::make_dgc_memory(count,
                                       {.momentum = static_cast<float>(config.optimizer.momentum),
                                        .nesterov = config.optimizer.nesterov,
                                        .clip_norm = config.compressor.clip_norm,
                                        .ranks = ranks});
  }
  if (compressor.id() == codec::CodecId::signsgd) {
    if (config.optimizer.momentum == 0) return nullptr;
    return collective::make_signum_memory(count, static_cast<float>(config.optimizer.momentum));
  }
  const std::string& wanted = config.synchronization.error_feedback;
  if (wanted == "ef14" || (wanted == "auto" && compressor.properties().needs_feedback))
    return collective::make_error_feedback(count);
  return nullptr;
}

std::vector<pipeline::FusionBucket> make_plan(const RunConfig& config, const Layout& layout,
                                              const codec::Compressor& compressor) {
  constexpr double kMib = 1024 * 1024;
  return pipeline::plan_buckets(
      layout, compressor,
      {.granularity = config.compressor.granularity == "model" ? pipeline::Granularity::model
                                                               : pipeline::Granularity::layer,
       .skip_below = config.compressor.skip_below,
       .bucket_bytes = static_cast<std::size_t>(config.synchronization.bucket_mib * kMib)});
}

std::unique_ptr<collective::Collective> make_collective(
    const RunConfig& config, comm::Communicator& comm, const Run& run,
    const std::vector<pipeline::FusionBucket>& plan) {
  std::string_view name = config.synchronization.collective;
  if (name == "auto") {
    name = collective::choose_collective(*run.compressor, plan.front().end, comm.size());
  }
  if (name == "dense") return collective::make_dense(comm);
  if (name == "mpi-allreduce") return collective::make_mpi_allreduce(comm);
  if (name == "power-sgd") {
    return collective::make_power_sgd(
        comm, plan,
        {.rank = static_cast<std::size_t>(config.compressor.rank), .run_seed = config.seed});
  }
  if (name == "allgather") return collective::make_allgather(comm, *run.compressor, plan);
  if (name == "ring") return collective::make_ring(comm, *run.compressor, plan);
  if (name == "recursive-doubling") {
    return collective::make_recursive_doubling(comm, *run.compressor, plan);
  }
  if (name == "sparse") {
    return collective::make_sparse(comm, *run.compressor, plan,
                                   {.reducer_feedback = run.memory != nullptr});
  }
  if (name == "integer") return collective::make_integer(comm, *run.compressor, plan);
  if (name == "hierarchical") {
    return collective::make_hierarchical(comm, *run.compressor, plan,
                                         {.reducer_feedback = run.memory != nullptr});
  }
  return collective::make_scatter_reduce(comm, *run.compressor, plan,
                                         {.reducer_feedback = run.memory != nullptr});
}

namespace {

/// Whether all ranks average something, by a collective and with a memory.
bool averages(const RunConfig& config) {
  const std::string& algorithm = config.synchronization.algorithm;
  return algorithm == "allreduce" || algorithm == "local-sgd";
}

void build_compressor(const RunConfig& config, const comm::Communicator& comm, Run& run) {
  run.compressor = codec::make_parallel(make_compressor(config.compressor), run.threads);
  run.plan.synchronizes = config.synchronization.algorithm != "none";
  run.plan.replicas_equal = config.synchronization.algorithm == "allreduce";
  run.plan.ends_equal = config.synchronization.algorithm == "local-sgd";
  run.plan.final_rounds = config.synchronization.final_rounds;
  if (!averages(config) || run.simulation != nullptr) return;
  run.memory = make_memory(config, comm.size(), *run.compressor, run.replica->gradient().size());
}

/// Null: the compressor stays as it is.
std::unique_ptr<collective::Adaptation> make_adaptation(const RunConfig& config,
                                                        comm::Communicator& comm,
                                                        codec::Compressor& compressor) {
  auto* const adaptive = dynamic_cast<codec::AdaptiveLevelCodec*>(&compressor);
  if (adaptive == nullptr) return nullptr;
  return collective::make_level_adaptation(comm, *adaptive, config.compressor.adapt_every);
}

/// Adapting takes a step that all ranks share.
void note_fixed_levels(const codec::Compressor& compressor, std::string& note) {
  if (dynamic_cast<const codec::AdaptiveLevelCodec*>(&compressor) == nullptr) return;
  if (!note.empty()) note += "; ";
  note += "levels stay as they start, for ranks share no step in which they could adapt";
}

void build_asynchronous_gossip(const RunConfig& config, comm::Communicator& comm, Run& run) {
  run.plan.asynchronous = true;
  note_fixed_levels(*run.compressor, run.gossip->note);
  run.synchronizer =
      train::make_asynchronous_gossip({.comm = comm,
                                       .pairs = *run.gossip->pairs,
                                       .model = *run.gossip->shared_model,
                                       .plan = run.buckets,
                                       .parameters = run.replica->parameters()},
                                      {.role = run.gossip->role,
                                       .lossy = !run.compressor->properties().lossless,
                                       .timeout_seconds = config.synchronization.timeout_seconds,
                                       .fault = run.plan.fault});
}

/// Before anything is built: where MPI admits no thread beside the main one.
void require_thread(const RunConfig& config, bool communication_thread) {
  if (communication_thread || !gossip_traits(config.synchronization.algorithm).asynchronous) return;
  fail(Kind::mpi,
       "synchronization.algorithm {}: expected an MPI that admits a communication thread "
       "(MPI_THREAD_SERIALIZED), found one that does not; use another MPI or d-psgd",
       config.synchronization.algorithm);
}

/// In a run whose ranks take steps alone, what adapts or strikes by steps is told of rounds.
std::optional<train::Fault> fault_in_round(const RunConfig& config, const Run& run) {
  std::optional<train::Fault> fault = run.plan.fault;
  if (fault) fault->step /= config.synchronization.local_steps;
  return fault;
}

/// DGC-like schedules of density are for gradients; every other codec keeps its own.
void build_gossip_averaging(const RunConfig& config, comm::Communicator& comm,
                            bool communication_thread, Run& run) {
  run.gossip =
      build_gossip(config, comm, *run.compressor, run.buckets, run.replica->parameters().size());
  const Gossip& gossip = *run.gossip;
  if (gossip.pairs != nullptr) return build_asynchronous_gossip(config, comm, run);
  run.adaptation = make_adaptation(config, comm, *run.compressor);
  const bool periodic = config.synchronization.local_steps > 1;
  run.synchronizer = train::make_gossip_averaging(
      {.comm = comm,
       .mixer = *gossip.mixer,
       .direction = periodic ? nullptr : gossip.direction.get(),
       .direction_mixer = gossip.direction_mixer.get(),
       .push_sum = gossip.push_sum.get(),
       .plan = run.buckets,
       .parameters = run.replica->parameters(),
       .gradient = run.replica->gradient()},
      {.run_seed = config.seed,
       .consensus_step = gossip.consensus_step,
       .damping = gossip.damping,
       .combine_first = config.synchronization.order == "combine-then-adapt",
       .overlap = config.synchronization.overlap && communication_thread,
       .lossy = !run.compressor->properties().lossless,
       .density = {},
       .fault = fault_in_round(config, run),
       .adaptation = run.adaptation.get()});
  if (!periodic) return;
  run.synchronizer = train::make_periodic_gossip({.gossip = std::move(run.synchronizer),
                                                  .direction = gossip.direction.get(),
                                                  .parameters = run.replica->parameters(),
                                                  .gradient = run.replica->gradient()},
                                                 config.synchronization.local_steps);
}

train::GradientAveragingOptions averaging_options(const RunConfig& config, const Run& run,
                                                  bool communication_thread) {
  train::GradientAveragingOptions options;
  options.run_seed = config.seed;
  options.overlap = config.synchronization.overlap && communication_thread;
  options.adaptation = run.adaptation.get();
  options.fault = run.plan.fault;
  options.divergence = run.divergence.get();
  options.lossy = !run.compressor->properties().lossless;
  if (config.compressor.name == "dgc") {
    options.density = [density = config.compressor.density,
                       warmup = config.compressor.warmup_epochs](std::uint64_t epoch) {
      return collective::dgc_density(density, warmup, static_cast<double>(epoch));
    };
  }
  return options;
}

/// Steps in which local SGD averages as if it were none.
StepId dense_steps(const RunConfig& config, const train::Plan& plan) {
  const std::uint64_t epochs = config.synchronization.post_local_epochs;
  if (epochs == 0) return 0;
  const auto steps = static_cast<std::int64_t>(epochs * plan.steps_per_epoch) - plan.shift;
  return static_cast<StepId>(std::max<std::int64_t>(0, steps));
}

/// Steps of the mean are averages: what adapts or strikes by steps is told of those.
void build_local_sgd(const RunConfig& config, comm::Communicator& comm,
                     std::vector<pipeline::FusionBucket> plan, Run& run) {
  const train::LocalSgdPlan steps = {.local_steps = config.synchronization.local_steps,
                                     .dense_steps = dense_steps(config, run.plan),
                                     .total_steps = run.plan.total_steps};
  train::GradientAveragingOptions options = averaging_options(config, run, false);
  if (options.fault) options.fault->step = steps.averages_before(options.fault->step);
  run.direction = make_direction(config, run.replica->parameters().size());
  run.synchronizer =
      train::make_local_sgd({.comm = comm,
                             .mean = train::make_gradient_averaging(
                                 comm, *run.collective, run.memory.get(), std::move(plan),
                                 run.replica->layout(), run.replica->gradient(), options),
                             .direction = run.direction.get(),
                             .parameters = run.replica->parameters(),
                             .gradient = run.replica->gradient(),
                             .layout = run.replica->layout(),
                             .divergence = run.divergence.get()},
                            steps);
}

void build_synchronization(const RunConfig& config, comm::Communicator& comm,
                           bool communication_thread, std::vector<pipeline::FusionBucket> plan,
                           Run& run) {
  if (!averages(config)) {
    run.synchronizer = std::make_unique<train::NoSynchronizer>();
    return;
  }
  run.adaptation = make_adaptation(config, comm, *run.compressor);
  if (run.simulation != nullptr) {
    run.synchronizer =
        make_simulated_averaging(config, *run.compressor, std::move(plan), *run.replica,
                                 averaging_options(config, run, false), *run.simulation);
    return;
  }
  run.collective = make_collective(config, comm, run, plan);
  if (config.synchronization.algorithm == "local-sgd") {
    build_local_sgd(config, comm, std::move(plan), run);
    return;
  }
  run.synchronizer = train::make_gradient_averaging(
      comm, *run.collective, run.memory.get(), std::move(plan), run.replica->layout(),
      run.replica->gradient(), averaging_options(config, run, communication_thread));
}

bool has_memory(const Run& run) {
  if (run.simulation != nullptr) return run.simulation->memories.front() != nullptr;
  return run.memory != nullptr;
}

/// Slices whose gradient comes with DGC's or Signum's momentum in it.
std::vector<TensorSlice> momentum_corrected(const RunConfig& config, const Run& run) {
  std::vector<TensorSlice> corrected;
  const std::string& name = config.compressor.name;
  if ((name != "dgc" && name != "signsgd") || !has_memory(run)) return corrected;
  const bool whole_model = config.compressor.granularity == "model";
  for (const TensorSlice& slice : run.replica->layout()) {
    if (whole_model || pipeline::is_compressed(slice, config.compressor.skip_below)) {
      corrected.push_back(slice);
    }
  }
  return corrected;
}

void build_update(const RunConfig& config, Run& run) {
  // A direction brings its own momentum and weight decay.
  const bool plain =
      run.direction != nullptr || (run.gossip != nullptr && run.gossip->direction != nullptr);
  run.optimizer = optim::make_sgd(
      run.replica->parameters().size(),
      {.momentum = plain ? 0.0f : static_cast<float>(config.optimizer.momentum),
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

RunConfig settled_config(const RunConfig& config, const Run& run) {
  RunConfig settled = config;
  if (run.choice) settled.synchronization.collective = run.choice->collective;
  if (run.simulation != nullptr && run.simulation->mean != nullptr)
    settled.synchronization.collective = run.collective_name();
  return settled;
}

std::unique_ptr<Run> build_run(const RunConfig& config, comm::Communicator& comm,
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
      build_data(config, comm, simulate, *run);
      build_model(config, comm, simulate, *run);
    }
    plan_checkpoints(config, from, run->plan);
  });
  if (run->data.train != nullptr) require_same_data(run->data, comm);
  require_same_shards(run->shards_fingerprint, comm);
  require_no_stop(comm);
  std::vector<pipeline::FusionBucket> plan;
  comm.agree_after([&] {
    build_compressor(config, comm, *run);
    plan = make_plan(config, run->replica->layout(), *run->compressor);
  });
  if (averages(config)) run->choice = choose_by_measure(config, comm, *run, plan);
  require_no_stop(comm);
  if (gossip_traits(config.synchronization.algorithm).mixes) {
    run->buckets = std::move(plan);
    build_gossip_averaging(config, comm, communication_thread, *run);
    comm.agree_after([&] { build_update(config, *run); });
    return run;
  }
  comm.agree_after([&] {
    build_synchronization(settled_config(config, *run), comm, communication_thread, std::move(plan),
                          *run);
    build_update(config, *run);
  });
  return run;
}

metrics::RunRecord describe(const RunConfig& config, const Run& run,
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
  record.config_json = resolved_json(settled_config(config, run));
  if (run.choice) record.collective_predicted_ms = 1e3 * run.choice->seconds;
  record.images_per_step = config.train.batch_size * static_cast<std::uint64_t>(record.ranks);
  return record;
}

}  // namespace eqt::app
