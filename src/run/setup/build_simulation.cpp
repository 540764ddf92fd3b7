// SPDX-License-Identifier: Apache-2.0
#include "setup/build_simulation.hpp"

#include <utility>

#include "collective/exact_grades.hpp"
#include "core/error.hpp"
#include "setup/build_grades.hpp"
#include "setup/build_messages.hpp"

namespace eqt::setup {
namespace {

void require_simulable_collective(const config::RunConfig& config) {
  const collective::CollectiveRow& found = *config.synchronization.collective;
  if (found.make_for_workers != nullptr) return;
  std::string names;
  for (const Entry<collective::CollectiveRow> row : collective::CollectiveRow::all())
    if (row->make_for_workers != nullptr)
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", row->name);
  fail(Kind::usage,
       "--simulate: expected synchronization.collective to be one of {}, whose order of additions "
       "one process repeats, found \"{}\"; set it to \"auto\", or start the ranks by mpirun",
       names, found.name);
}

}  // namespace

void require_simulable(const config::RunConfig& config, int workers,
                       const comm::Communicator& comm) {
  if (comm.size() > 1)
    fail(Kind::usage,
         "--simulate {}: expected one process, which computes for all ranks, found {}; start it "
         "without mpirun, or leave --simulate out",
         workers, comm.size());
  if (!config.synchronization.algorithm->can_be_simulated)
    fail(Kind::usage,
         "--simulate: expected synchronization.algorithm \"allreduce\", whose ranks share one "
         "model, found \"{}\"; start the ranks by mpirun",
         config.synchronization.algorithm->name);
  if (config.train.is_emulated())
    fail(Kind::usage,
         "--simulate: expected train.emulate_compute null, for ranks that only wait take no "
         "turns, found a time; leave one of the two out");
  if (config.train.balances())
    fail(Kind::usage,
         "--simulate: expected train.batch_sizes null or a list, for ranks of one process have one "
         "speed, found \"auto\"; give a list, or start the ranks by mpirun");
  if (config.train.ema > 0)
    fail(Kind::usage,
         "--simulate: expected train.ema 0, for the running statistics of ranks that take turns "
         "have no average, found {}; leave it out, or start the ranks by mpirun",
         config.train.ema);
  if (config.compressor.make()->properties().averages_itself)
    fail(Kind::usage,
         "--simulate: expected a compressor whose messages are averaged by allgather, found "
         "\"{}\", whose factors are averaged twice in a step; start the ranks by mpirun",
         config.compressor.name->name);
  if (measures_links(config, workers))
    fail(Kind::usage,
         "--simulate: expected a rate in Mb/s or \"ignore\" as compressor.link, for ranks of one "
         "process have no links to measure, found \"measured\"; set compressor.link");
  require_simulable_collective(config);
}

std::unique_ptr<Simulation> make_simulation(
    std::vector<std::unique_ptr<data::Partition>> partitions, const data::Dataset& set,
    const std::vector<data::BatchLoader::Options>& options) {
  auto simulation = std::make_unique<Simulation>();
  simulation->partitions = std::move(partitions);
  for (std::size_t w = 0; w < simulation->partitions.size(); ++w)
    simulation->batches.push_back(
        std::make_unique<data::BatchLoader>(set, *simulation->partitions[w], options[w]));
  return simulation;
}

void build_workers(model::Replica& replica, Simulation& simulation) {
  std::vector<data::BatchLoader*> batches;
  for (const auto& loader : simulation.batches) batches.push_back(loader.get());
  simulation.workers = std::make_unique<train::Workers>(replica, std::move(batches));
}

std::unique_ptr<sync::Synchronizer> build_simulated_averaging(
    const config::RunConfig& config, codec::Compressor& compressor,
    std::vector<pipeline::FusionBucket> plan, model::Replica& replica,
    const sync::GradientAveragingOptions& options, Simulation& simulation) {
  std::vector<collective::GradientMemory*> memories;
  for (int w = 0; w < simulation.count(); ++w) {
    simulation.memories.push_back(
        make_memory(config, simulation.count(), compressor, replica.gradient().size()));
    memories.push_back(simulation.memories.back().get());
  }
  simulation.mean = config.synchronization.collective->make_for_workers(
      {.compressor = compressor,
       .plan = plan,
       .workers = simulation.count(),
       .reducer_feedback = memories.front() != nullptr,
       .feedback_decay = static_cast<float>(config.synchronization.feedback_decay)});
  if (const codec::MixedGrades* const grades = compressor.mixed_grades(); grades != nullptr)
    simulation.mean =
        collective::dense_if_exact(*grades, std::move(simulation.mean), plan, simulation.count());
  return sync::make_simulated_averaging(*simulation.mean, std::move(memories), std::move(plan),
                                        replica.layout(), replica.gradient(), options);
}

}  // namespace eqt::setup
