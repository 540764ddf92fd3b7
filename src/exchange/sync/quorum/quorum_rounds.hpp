// SPDX-License-Identifier: Apache-2.0
// Local SGD in rounds that need a quorum: nobody waits for a slow or stalled rank.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "sync/local_sgd.hpp"
#include "sync/quorum/quorum_exchange.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

struct QuorumRoundsParts {
  comm::Communicator& comm;
  /// Averages `difference` over the ranks of `senders`, without a thread of its own; its steps are
  /// rounds.
  std::unique_ptr<Synchronizer> mean;
  collective::Senders& senders;
  QuorumMemory* memory = nullptr;  // of `mean`; may be null
  std::span<float> parameters, difference;
  const Layout& layout;  // of these
};

struct QuorumRoundsOptions {
  StepId local_steps = 1;  // H
  StepId delay = 1;        // D, in [1, H]
  std::size_t quorum = 1;  // Q, in [1, ranks]
  std::optional<double> grace_seconds = {};
  OuterStep outer = {};
  StepId total_steps = 1;  // of the mean rank
  /// The number of steps of the mean rank, after `done`, at which an epoch ends.
  std::function<StepId(StepId done)> next_pause;
  double timeout_seconds = 0;               // 0 = none
  std::optional<QuorumReplay> replay = {};  // rounds that are repeated
  /// Called after each round with r, on the communication thread, for tests.
  std::function<void(std::uint64_t round, std::span<const float> common)> on_round = {};
};

/// Local SGD with late averages (local_sgd.hpp), of ranks with own step counts. A rank that has
/// taken H steps since its last difference tells rank 0, which closes a round when `quorum` ranks
/// are ready and either all others are, too, or the time of grace has passed (QuorumCoordinator).
/// The members send their differences p_i to all ranks. m = sum(c_i p_i) / sum(c_i), where c_i are
/// the steps in p_i, r -= s as in local SGD, and all ranks have the same r after the same rounds.
/// Members continue from x += p_i - s, D steps after p_i was made, for which they wait; others from
/// x -= s. What they have learned is in their next difference.
///
/// An epoch ends with the round that completes its steps, counted over all ranks; a run ends with
/// one more round, of all ranks, after which x = r. So each rank takes up to H + D steps more. The
/// learning rate is that of the steps that have counted.
///
/// If all ranks are members of all rounds and H steps take equally long, this is local SGD with
/// that delay, bit for bit with a constant learning rate. Decoupled DiLoCo has a quorum, grace and
/// weights of this kind. Deviates from it: rank 0 leads, and ranks send to all.
std::unique_ptr<Synchronizer> make_quorum_rounds(QuorumRoundsParts parts,
                                                 QuorumRoundsOptions options);

struct AlgorithmParts;
struct AlgorithmSettings;
struct BuiltAlgorithm;

/// Makes quorum rounds from a run's parts, by an allgather of their own: the algorithm local-sgd
/// with a quorum.
/// @throws Error{usage} for a quorum that these ranks cannot have
BuiltAlgorithm make_quorum(AlgorithmParts parts, const AlgorithmSettings& settings);

}  // namespace eqt::sync
