#include "setup/build_simulation.hpp"

#include <utility>

#include "core/error.hpp"
#include "setup/build_messages.hpp"

namespace eqt::setup {
namespace {

void require_simulable_collective(const config::RunConfig& config) {
  const std::string& collective = config.synchronization.collective;
  if (collective == "auto" || collective == "allgather") return;
  if (collective == "dense" && config.compressor.name == codec::kNone) return;
  fail(Kind::usage,
       "--simulate: expected synchronization.collective \"auto\" or \"allgather\", or \"dense\" "
       "for the compressor none, whose order of additions one process repeats, found \"{}\"; set "
       "it to \"allgather\", or start the ranks by mpirun",
       collective);
}

}  // namespace

void require_simulable(const config::RunConfig& config, int workers,
                       const comm::Communicator& comm) {
  if (comm.size() > 1)
    fail(Kind::usage,
         "--simulate {}: expected one process, which plays all ranks, found {}; start it without "
         "mpirun, or leave --simulate out",
         workers, comm.size());
  if (config.synchronization.algorithm != "allreduce")
    fail(Kind::usage,
         "--simulate: expected synchronization.algorithm \"allreduce\", whose ranks share one "
         "model, found \"{}\"; start the ranks by mpirun",
         config.synchronization.algorithm);
  if (config.train.is_emulated())
    fail(Kind::usage,
         "--simulate: expected train.emulate_compute null, for ranks that only wait take no "
         "turns, found a time; leave one of the two out");
  if (config.compressor.name == codec::kPowerSgd)
    fail(Kind::usage,
         "--simulate: expected a compressor whose messages are averaged by allgather, found "
         "\"powersgd\", whose factors are averaged twice in a step; start the ranks by mpirun");
  require_simulable_collective(config);
}

std::unique_ptr<Simulation> make_simulation(
    std::vector<std::unique_ptr<data::Partition>> partitions, const data::Dataset& set,
    const data::BatchLoader::Options& options) {
  auto simulation = std::make_unique<Simulation>();
  simulation->partitions = std::move(partitions);
  for (const auto& partition : simulation->partitions)
    simulation->batches.push_back(std::make_unique<data::BatchLoader>(set, *partition, options));
  return simulation;
}

void seat_workers(model::Replica& replica, Simulation& simulation) {
  std::vector<data::BatchLoader*> batches;
  for (const auto& loader : simulation.batches) batches.push_back(loader.get());
  simulation.workers = std::make_unique<train::Workers>(replica, std::move(batches));
}

std::unique_ptr<train::Synchronizer> make_simulated_averaging(
    const config::RunConfig& config, const codec::Compressor& compressor,
    std::vector<pipeline::FusionBucket> plan, model::Replica& replica,
    const train::GradientAveragingOptions& options, Simulation& simulation) {
  const bool dense =
      compressor.id() == codec::CodecId::none && config.synchronization.collective != "allgather";
  simulation.mean = dense ? collective::make_worker_dense(plan, simulation.count())
                          : collective::make_worker_allgather(compressor, plan, simulation.count());
  std::vector<collective::GradientMemory*> memories;
  for (int w = 0; w < simulation.count(); ++w) {
    simulation.memories.push_back(
        make_memory(config, simulation.count(), compressor, replica.gradient().size()));
    memories.push_back(simulation.memories.back().get());
  }
  return train::make_averaging_in_turn(*simulation.mean, std::move(memories), std::move(plan),
                                       replica.layout(), replica.gradient(), options);
}

}  // namespace eqt::setup
