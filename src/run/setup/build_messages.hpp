// SPDX-License-Identifier: Apache-2.0
// Config keys become what a rank sends: how values are encoded, which travel together, what is
// remembered of them.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "comm/link_probe.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "pipeline/plan.hpp"
#include "setup/build_collective.hpp"

namespace eqt::setup {

struct MessageParts {
  std::unique_ptr<codec::Compressor> compressor;
  std::unique_ptr<collective::GradientMemory> memory;  // may be null
  std::vector<pipeline::FusionBucket> buckets;
  std::optional<CostedChoice> choice;  // of the collective, if `auto` had one to make
  int threads = 1;                     // compressor auto: that compute
  int hosts = 1;                       // compressor auto: if each has as many ranks; else 0
  std::vector<comm::Link> links;       // compressor auto: measured; empty: they are not
};

/// Threads for this rank: its share of the host's cores, or of what it was bound to if that is
/// less; config.threads_per_rank if that is set. Who plays ranks in turn computes with as many
/// threads as one of them on this host: another number would round otherwise.
/// @param simulate ranks that this process plays; 0: it is one
int threads_for(const config::RunConfig& config, const comm::Communicator& comm, int simulate = 0);

/// Makes what a run with this config remembers of `count` values; null if it remembers nothing.
std::unique_ptr<collective::GradientMemory> make_memory(const config::RunConfig& config, int ranks,
                                                        const codec::Compressor& compressor,
                                                        std::size_t count);

/// Returns which values travel together in a run with this config.
std::vector<pipeline::FusionBucket> make_plan(const config::RunConfig& config, const Layout& layout,
                                              const codec::Compressor& compressor);

/// `config` with the collective that was chosen, if one was.
config::RunConfig settled_config(const config::RunConfig& config,
                                 const std::optional<CostedChoice>& choice);

/// @param layout of the values, as they are in the replica's gradient
/// @param threads for encoding
/// @param simulates whether this process plays ranks, each with a memory of its own
/// @throws Error{usage} on all ranks. Collective.
MessageParts build_messages(const config::RunConfig& config, const Layout& layout, int threads,
                            bool simulates, comm::Communicator& comm);

}  // namespace eqt::setup
