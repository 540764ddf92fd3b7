// SPDX-License-Identifier: Apache-2.0
// From config keys to what ranks do together in a step: who averages what, and how.

#pragma once

#include <memory>
#include <optional>

#include "adaptation/adaptation.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/flat_buffer.hpp"
#include "model/replica.hpp"
#include "optim/schedule.hpp"
#include "setup/build_encoder.hpp"
#include "setup/build_gossip.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_simulation.hpp"
#include "sync/direction.hpp"
#include "sync/divergence.hpp"
#include "sync/quorum/quorum_memory.hpp"
#include "sync/synchronizer.hpp"
#include "train/trainer.hpp"

namespace eqt::setup {

/// What rounds of a quorum change from one to the next.
struct QuorumParts {
  collective::Senders senders;
  std::optional<sync::QuorumMemory> memory = {};  // empty: no error feedback
};

/// Owns the parts, in the order in which they depend on each other.
struct SyncParts {
  std::unique_ptr<adaptation::Adaptation> adaptation;  // null: the compressor stays as it is
  std::unique_ptr<collective::Collective> collective;  // null: nothing is averaged by one
  std::unique_ptr<Gossip> gossip;                      // null: no algorithm that gossips
  std::unique_ptr<sync::Direction> direction;          // of local-sgd; may be null
  FlatBuffer difference;                               // of local-sgd with a delay: under way
  std::unique_ptr<QuorumParts> quorum;                 // of local-sgd with a quorum
  EncoderChoice encoding;
  std::unique_ptr<sync::Synchronizer> synchronizer;
};

/// What synchronization is built from; all of it outlives what is built.
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

/// Neighbours mix.
/// @throws Error{usage} on every rank. Collective.
SyncParts build_gossip_averaging(const config::RunConfig& config, const SyncBase& base);

/// All ranks average, or none does. Takes base.messages.buckets.
/// @param config settled: it names the collective
/// @throws Error{usage}
SyncParts build_averaging(const config::RunConfig& config, const SyncBase& base);

}  // namespace eqt::setup
