// SPDX-License-Identifier: Apache-2.0
// One topology on all ranks of a job, proved before it is used.

#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "config/build_topology.hpp"
#include "topology/topology.hpp"

namespace eqt::setup {

/// Builds config's topology of comm.size() ranks. Rank 0 reads the file of a graph, and all build
/// theirs from its text.
/// @throws Error{usage} on every rank if there is no such topology, or as require_same_topology.
/// Collective.
std::unique_ptr<topology::Topology> agree_on_topology(const config::TopologyConfig& config,
                                                      comm::Communicator& comm);

/// Compares a hash of every weight of every matrix with rank 0's.
/// @throws Error{usage} on every rank: names the first rank that differs, its graph and rank 0's.
/// Collective.
void require_same_topology(const topology::Topology& topology, comm::Communicator& comm);

}  // namespace eqt::setup
