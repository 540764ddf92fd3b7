// SPDX-License-Identifier: Apache-2.0
// The communication thread of a rank whose rounds need a quorum.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "sync/note_link.hpp"
#include "sync/quorum/quorum_memory.hpp"
#include "sync/quorum/quorum_note.hpp"
#include "sync/quorum/quorum_progress.hpp"
#include "sync/quorum/quorum_rule.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

struct QuorumExchangeParts {
  comm::Communicator& comm;
  /// Averages `difference` over the ranks of `senders`, on the thread that calls it.
  Synchronizer& mean;
  collective::Senders& senders;
  QuorumMemory* memory = nullptr;  // of `mean`; may be null
  std::span<float> difference;
  QuorumProgress& progress;
};

struct QuorumExchangeOptions {
  QuorumRule rule;
  double timeout_seconds = 0;            // 0 = none
  const QuorumReplay* replay = nullptr;  // may be null
  /// Called after each round with r, for tests.
  std::function<void(std::uint64_t round, std::span<const float> common)> on_round = {};
};

/// Rank 0 hears who is ready, closes rounds and tells all. All of the rank's MPI calls are made
/// here during run().
class QuorumExchange {
 public:
  /// A round, with what rank 0 alone knows.
  struct Closed {
    std::vector<std::uint64_t> counts;
    double waited_seconds = 0;
  };

  QuorumExchange(const QuorumExchangeParts& parts, const QuorumExchangeOptions& options);
  ~QuorumExchange();
  QuorumExchange(const QuorumExchange&) = delete;
  QuorumExchange& operator=(const QuorumExchange&) = delete;

  /// Until the epoch has its steps, or the run stops. Every rank then has had the same rounds.
  /// @throws Error{timeout} naming a rank that is silent, Error{wire}
  void run();
  /// Averages `difference` over all ranks, after run().
  /// @param counts by rank
  SyncResult average_all(std::uint64_t round, std::span<const std::uint64_t> counts);
  /// Since the last call.
  std::vector<Closed> take_closed();
  /// @pre run() is not running
  void visit_state(StateVisitor& visitor);

 private:
  struct Link {
    bool left = false;  // sends no more in this epoch
    Stopwatch since_heard{};
    NoteLink notes{};
  };

  void lead();
  void follow();
  void open();
  bool hear();
  void hear(Link& link);
  bool close_round();
  void run_round(std::uint64_t round, std::span<const std::uint64_t> counts);
  SyncResult average(std::uint64_t round, std::span<const std::uint64_t> counts);
  void send(Link& link, QuorumNoteKind kind, std::uint64_t round = 0,
            std::span<const std::uint64_t> counts = {});
  void send_all(QuorumNoteKind kind, std::uint64_t round = 0,
                std::span<const std::uint64_t> counts = {});
  void look_after_links();
  void finish();
  bool stops();
  double now() const { return clock_.seconds(); }

  const QuorumExchangeParts p_;
  const QuorumExchangeOptions options_;
  QuorumCoordinator coordinator_;  // rank 0's
  std::vector<Link> links_;        // rank 0: to all others; others: to rank 0; never resized
  QuorumNote note_;                // the last read
  bool over_ = false;              // rank 0 has said that no round follows
  bool left_ = false;              // this rank, not 0, has said that it sends no more
  Stopwatch clock_, since_alive_;
  comm::ByteCount bytes_before_;
  std::vector<Closed> closed_;
};

}  // namespace eqt::sync
