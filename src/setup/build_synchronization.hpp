// From config keys to what ranks do together in a step: who averages what, how, and what is
// remembered.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "pipeline/plan.hpp"

namespace eqt::setup {

struct Run;

/// Whether all ranks average something, by a collective and with a memory.
bool averages(const config::RunConfig& config);

/// Before anything is built.
/// @throws Error{mpi} where MPI admits no thread beside the main one and the algorithm needs it
void require_thread(const config::RunConfig& config, bool communication_thread);

/// What a run with this config remembers of `count` values; null: nothing.
std::unique_ptr<collective::GradientMemory> make_memory(const config::RunConfig& config, int ranks,
                                                        const codec::Compressor& compressor,
                                                        std::size_t count);

/// Which values travel together in a run with this config.
std::vector<pipeline::FusionBucket> make_plan(const config::RunConfig& config, const Layout& layout,
                                              const codec::Compressor& compressor);

/// The collective that config.synchronization.collective names or, if that is `auto`, the chosen
/// one. Reads run.compressor, which the collective keeps, and whether there is a run.memory.
std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const Run& run,
    const std::vector<pipeline::FusionBucket>& plan);

/// run.compressor, run.memory and what run.plan says of the algorithm; reads run.replica.
/// @throws Error{usage}
void build_compressor(const config::RunConfig& config, const comm::Communicator& comm, Run& run);

/// Neighbours mix: run.gossip and run.synchronizer, for the messages in run.buckets.
/// @throws Error{usage} on every rank. Collective.
void build_gossip_averaging(const config::RunConfig& config, comm::Communicator& comm,
                            bool communication_thread, Run& run);

/// All ranks average, or none does: run.collective and run.synchronizer, for the messages of
/// `plan`.
/// @param config settled: it names the collective
/// @throws Error{usage}
void build_averaging(const config::RunConfig& config, comm::Communicator& comm,
                     bool communication_thread, std::vector<pipeline::FusionBucket> plan, Run& run);

}  // namespace eqt::setup
