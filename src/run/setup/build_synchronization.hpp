// SPDX-License-Identifier: Apache-2.0
// Config keys become what ranks do together in a step: who averages what, and how.

#pragma once

#include <memory>
#include <string>

#include "adaptation/adaptation.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "config/build_topology.hpp"
#include "config/run_config.hpp"
#include "device/gradient_encoder.hpp"
#include "model/replica.hpp"
#include "optim/schedule.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_simulation.hpp"
#include "sync/algorithm_parts.hpp"
#include "topology/topology.hpp"
#include "train/trainer.hpp"

namespace eqt::setup {

/// Who encodes the gradients of a network that computes on a device: the device or the host.
struct EncoderChoice {
  std::unique_ptr<device::GradientEncoder> encoder;  // null: the host encodes
  std::string note;  // for the reader of the records; empty: the network is on the host
};

/// Owns the parts, in the order in which they depend on each other.
struct SyncParts {
  std::unique_ptr<collective::Collective> collective;  // null: nothing is averaged by one
  std::unique_ptr<adaptation::Adaptation> adaptation;  // null: the compressor stays as it is
  std::unique_ptr<topology::Topology> topology;        // null: no algorithm that mixes
  EncoderChoice encoding;
  sync::BuiltAlgorithm algorithm;
};

/// Synchronization is built from these parts; all of them outlive what is built.
struct SyncBase {
  comm::Communicator& comm;
  MessageParts& messages;
  model::Replica& replica;
  sync::Divergence& divergence;
  const train::Plan& plan;
  const optim::Schedule& schedule;
  Simulation* simulation = nullptr;   // null: every rank is a process
  bool communication_thread = false;  // whether MPI admits one
  sync::Timeline* timeline = nullptr;
  const train::BatchBalancer* balancer = nullptr;  // null: all ranks have the same batch
  model::Placement placement = {};                 // of this rank's network
};

/// Before anything is built.
/// @throws Error{mpi} where MPI admits no thread beside the main one and the algorithm needs it
void require_thread(const config::RunConfig& config, bool communication_thread);

/// Returns what the config says about its algorithm.
/// @param layout of the trained parameters @param ranks of the job
/// @throws Error{usage}, Error{data} for decisions that cannot be repeated
sync::AlgorithmSettings algorithm_settings(const config::RunConfig& config, const train::Plan& plan,
                                           const optim::Schedule& schedule, const Layout& layout,
                                           bool communication_thread, int ranks);

/// Builds the algorithm, and takes base.messages.buckets.
/// @param config settled: it names the collective
/// @throws Error{usage} on every rank. Collective.
SyncParts build_synchronization(const config::RunConfig& config, const SyncBase& base);

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
