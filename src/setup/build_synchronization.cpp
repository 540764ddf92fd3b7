#include "setup/build_synchronization.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "codec/levels/adaptive_codec.hpp"
#include "codec/parallel.hpp"
#include "config/feedback_checks.hpp"
#include "config/gossip_checks.hpp"
#include "config/make_compressor.hpp"
#include "core/error.hpp"
#include "setup/build_run.hpp"
#include "train/asynchronous_gossip.hpp"
#include "train/gossip_averaging.hpp"
#include "train/gradient_averaging.hpp"
#include "train/local_sgd.hpp"
#include "train/periodic_gossip.hpp"

namespace eqt::setup {

bool averages(const config::RunConfig& config) {
  const std::string& algorithm = config.synchronization.algorithm;
  return algorithm == "allreduce" || algorithm == "local-sgd";
}

void require_thread(const config::RunConfig& config, bool communication_thread) {
  if (communication_thread || !config::gossip_traits(config.synchronization.algorithm).asynchronous)
    return;
  fail(Kind::mpi,
       "synchronization.algorithm {}: expected an MPI that admits a communication thread "
       "(MPI_THREAD_SERIALIZED), found one that does not; use another MPI or d-psgd",
       config.synchronization.algorithm);
}

std::unique_ptr<collective::GradientMemory> make_memory(const config::RunConfig& config, int ranks,
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
  return config::has_error_feedback(config, compressor.properties())
             ? collective::make_error_feedback(count)
             : nullptr;
}

std::vector<pipeline::FusionBucket> make_plan(const config::RunConfig& config, const Layout& layout,
                                              const codec::Compressor& compressor) {
  constexpr double kMib = 1024 * 1024;
  // MPI takes a whole fusion bucket at once; cut only so that its deadline is that of a part.
  constexpr std::size_t kMpiPiece = std::size_t{64} << 20;
  const bool by_mpi = config.synchronization.collective == "mpi-allreduce";
  return pipeline::plan_buckets(
      layout, compressor,
      {.granularity = config.compressor.granularity == "model" ? pipeline::Granularity::model
                                                               : pipeline::Granularity::layer,
       .skip_below = config.compressor.skip_below,
       .bucket_bytes = static_cast<std::size_t>(config.synchronization.bucket_mib * kMib),
       .piece_bytes = by_mpi ? kMpiPiece : 0});
}

std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const Run& run,
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

void build_compressor(const config::RunConfig& config, const comm::Communicator& comm, Run& run) {
  run.compressor = codec::make_parallel(config::make_compressor(config.compressor), run.threads);
  run.plan.synchronizes = config.synchronization.algorithm != "none";
  run.plan.replicas_equal = config.synchronization.algorithm == "allreduce";
  run.plan.ends_equal = config.synchronization.algorithm == "local-sgd";
  run.plan.final_rounds = config.synchronization.final_rounds;
  if (!averages(config) || run.simulation != nullptr) return;
  run.memory = make_memory(config, comm.size(), *run.compressor, run.replica->gradient().size());
}

namespace {

/// Null: the compressor stays as it is.
std::unique_ptr<collective::Adaptation> make_adaptation(const config::RunConfig& config,
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

void build_asynchronous_gossip(const config::RunConfig& config, comm::Communicator& comm,
                               Run& run) {
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

/// In a run whose ranks take steps alone, what adapts or strikes by steps is told of rounds.
std::optional<train::Fault> fault_in_round(const config::RunConfig& config, const Run& run) {
  std::optional<train::Fault> fault = run.plan.fault;
  if (fault) fault->step /= config.synchronization.local_steps;
  return fault;
}

train::GradientAveragingOptions averaging_options(const config::RunConfig& config, const Run& run,
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
StepId dense_steps(const config::RunConfig& config, const train::Plan& plan) {
  const std::uint64_t epochs = config.synchronization.post_local_epochs;
  if (epochs == 0) return 0;
  const auto steps = static_cast<std::int64_t>(epochs * plan.steps_per_epoch) - plan.shift;
  return static_cast<StepId>(std::max<std::int64_t>(0, steps));
}

/// Steps of the mean are averages: what adapts or strikes by steps is told of those.
void build_local_sgd(const config::RunConfig& config, comm::Communicator& comm,
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

}  // namespace

// DGC-like schedules of density are for gradients; every other codec keeps its own.
void build_gossip_averaging(const config::RunConfig& config, comm::Communicator& comm,
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

void build_averaging(const config::RunConfig& config, comm::Communicator& comm,
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

}  // namespace eqt::setup
