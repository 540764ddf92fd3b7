// SPDX-License-Identifier: Apache-2.0
// The communication thread of a rank that averages in pairs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/clock.hpp"
#include "pipeline/engine.hpp"
#include "sync/edge_count.hpp"
#include "sync/gossip/pair_note.hpp"
#include "sync/gossip/pair_roles.hpp"
#include "sync/gossip/pairwise.hpp"
#include "sync/gossip/pairwise_progress.hpp"
#include "sync/note_link.hpp"

namespace eqt::sync {

struct PairwiseExchangeOptions {
  PairRole role;
  bool lossy = false;          // measure the quantization variance every few exchanges
  double timeout_seconds = 0;  // 0 = none
  std::optional<comm::Fault>
      fault;  // with a bucket: happens before the first exchange after its step
};

/// Asks or answers for an epoch. All of the rank's MPI calls are made here during run().
class PairwiseExchange {
 public:
  PairwiseExchange(comm::Communicator& comm, PairwiseAveraging& pairs,
                   std::span<const pipeline::FusionBucket> plan, PairwiseProgress& progress,
                   const PairwiseExchangeOptions& options);
  ~PairwiseExchange();
  PairwiseExchange(const PairwiseExchange&) = delete;
  PairwiseExchange& operator=(const PairwiseExchange&) = delete;

  /// Active: asks each partner in turn, once per request of the trainer, and at the end tells all
  /// partners that it has finished. Passive: answers until its trainer and all its partners have
  /// finished the epoch.
  /// @throws Error{timeout} naming a partner that has not asked in time, Error{wire}
  void run();
  /// Bytes by receiver, up to the last run.
  std::span<const std::uint64_t> sent_bytes_by_peer() const { return edges_.sent(); }
  /// @pre run() is not running
  void visit_state(StateVisitor& visitor);

 private:
  struct Link {
    Partner partner;
    std::uint64_t exchanges = 0;  // of this pair so far
    bool left = false;            // has finished asking in this epoch
    Stopwatch since_heard{};      // since it last asked
    NoteLink notes{};
  };

  void ask_in_turn();
  void answer_all();
  void ask(Link& link);
  bool answer_asked();
  void handle_note(Link& link);
  void average(Link& link, Rank asking);
  void start_sending(Link& link, NoteKind kind);
  void read(Link& link);
  Traffic bytes_since();
  void check_silence() const;
  bool all_left() const;
  void inject_fault();

  comm::Communicator& comm_;
  PairwiseAveraging& pairs_;
  PairwiseProgress& progress_;
  const PairwiseExchangeOptions options_;
  pipeline::Engine engine_;
  std::vector<Link> links_;  // never resized: exchanges point into it
  std::size_t turn_ = 0;
  std::uint64_t exchanges_ = 0;
  EdgeCount edges_;            // open during run(); bytes since the progress was last updated
  PairNote note_;              // the last read
  std::vector<StepId> known_;  // the last sent
};

}  // namespace eqt::sync
