// SPDX-License-Identifier: Apache-2.0
// Decentralised training without a common step: pairs of ranks average their models while all
// train at their own pace.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/layout.hpp"
#include "pipeline/plan.hpp"
#include "sync/gossip/pairwise.hpp"
#include "sync/synchronizer.hpp"
#include "topology/topology.hpp"

namespace eqt::sync {

/// A rank that a rank averages with.
struct Partner {
  Rank rank = 0;
  std::size_t turns = 1;  // number of partners of the active one, which asks them in turn
};

/// One rank's part. Ranks of one side of a bipartite graph are active: they ask. Those of the
/// other are passive: they answer at any time. So no rank waits for a rank that waits, and there
/// can be no deadlock.
struct PairRole {
  bool active = false;
  /// The graph's neighbours. Active ranks begin with different ones, so that they do not all ask
  /// the same rank first.
  std::vector<Partner> partners;
};

/// The larger side is active, because each active rank asks once per step: the leaves of a star,
/// not its centre. If both are equal, the one without rank 0: odd ranks of a ring (Lian et al.
/// 2018). A single rank is passive.
/// @throws Error{usage} unless the graph is undirected, does not change and has no odd cycle; the
/// message has the condition and a valid choice
PairRole assign_role(const topology::Topology& topology, Rank rank);

enum class NoteKind : std::uint8_t {
  ask = 1,     // the sender's model follows; the receiver answers
  answer = 2,  // the answer's model follows
  leave = 3,   // the sender asks no more in this epoch
};

/// The note that is sent with a pair's models: which rank asks, and the steps of all ranks.
///
/// A note of ranks (RankNoteFormat) with magic "EQTP": the number of the exchange, and completed
/// steps by rank, as far as the sender knows. 24 + 8n bytes.
struct PairNote {
  NoteKind kind = NoteKind::ask;
  std::uint64_t exchange = 0;  // number of earlier exchanges of this pair
  std::vector<StepId> steps = {};
};

std::size_t note_bytes(std::size_t ranks);
/// @pre bytes.size() == note_bytes(steps.size())
void write_note(NoteKind kind, std::uint64_t exchange, std::span<const StepId> steps,
                std::span<std::byte> bytes);
/// @throws Error{wire} on anything but a note of `ranks` ranks
void read_note(std::span<const std::byte> bytes, std::size_t ranks, PairNote& note);

struct AsynchronousGossipOptions {
  PairRole role;
  bool lossy = false;          // measure the quantization variance every few exchanges
  double timeout_seconds = 0;  // 0 = none
  /// One with a bucket happens before the first exchange after its step.
  std::optional<comm::Fault> fault;
};

/// Everything outlives the synchronizer.
struct AsynchronousGossipParts {
  comm::Communicator& comm;
  PairwiseAveraging& pairs;
  SharedModel& model;  // the one that `pairs` averages
  std::span<const pipeline::FusionBucket> plan;
  std::span<float> parameters;
};

/// Makes gossip for Plan::asynchronous. The trainer works on a copy of the model. Its update is
/// added to the model at the end of a step, and the next step begins with the model at that time
/// (AD-PSGD, Lian et al., ICML 2018). From the first step of an epoch to end_epoch() a
/// communication thread averages and makes all MPI calls.
///
/// A rank whose step takes longer than the deadline ends the job, and so does a rank that does not
/// answer a partner in time.
std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const AsynchronousGossipOptions& options);

}  // namespace eqt::sync
