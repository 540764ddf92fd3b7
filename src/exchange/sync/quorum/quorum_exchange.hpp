// SPDX-License-Identifier: Apache-2.0
// The communication thread of a rank whose rounds need a quorum: its notes, the rule by which rank
// 0 closes rounds, and the memory of a rank that may not be in a round.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "core/layout.hpp"
#include "sync/own_pace.hpp"
#include "sync/quorum/quorum_progress.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

enum class QuorumNoteKind : std::uint8_t {
  ready = 1,  // to rank 0: the sender's difference may go into a round, with the sender's count
  close = 2,  // of rank 0: this round is of the ranks whose count is not 0
  leave = 3,  // to rank 0: the sender sends no more in this epoch
  end = 4,    // of rank 0: no round follows in this epoch
  alive = 5,  // either way: the sender's communication thread runs
};

/// The notes by which ranks agree on the rounds: rank 0 leads, the others tell it when they are
/// ready.
///
/// A note of ranks (RankNoteFormat) with magic "EQTQ": the number of the round, and steps that
/// count, by rank. 24 + 8n bytes.
struct QuorumNote {
  QuorumNoteKind kind = QuorumNoteKind::alive;
  std::uint64_t round = 0;  // close: from 1
  std::vector<std::uint64_t> counts = {};
};

std::size_t quorum_note_bytes(std::size_t ranks);
/// @pre bytes.size() == quorum_note_bytes(note.counts.size())
void write_quorum_note(const QuorumNote& note, std::span<std::byte> bytes);
/// @throws Error{wire} on anything but a note of `ranks` ranks
void read_quorum_note(std::span<const std::byte> bytes, std::size_t ranks, QuorumNote& note);

/// A round that a rank was left out of so often in a row waits for it.
inline constexpr std::uint64_t kMostMissedRounds = 8;

struct QuorumRule {
  std::size_t ranks = 1, quorum = 1;
  /// The other ranks are waited for this long once a quorum is ready; unset: a quarter of the last
  /// round's time, of this one's in the first round of an epoch.
  std::optional<double> grace_seconds = {};
};

/// Decides when a round closes and who is in it, on rank 0. It is pure and knows no messages.
///
/// Decoupled DiLoCo has a coordinator of this kind, with a least number of learners, a time of
/// grace and weights by work. Deviates: rank 0 of the job is it, and no rank starves.
class QuorumCoordinator {
 public:
  struct Closing {
    std::vector<std::uint64_t> counts;  // by rank; 0: not a member
    double waited_seconds = 0;          // since the quorum was ready
  };

  explicit QuorumCoordinator(const QuorumRule& rule)
      : rule_(rule), counts_(rule.ranks), missed_(rule.ranks) {}

  /// An epoch begins: nobody is ready.
  /// @param now [seconds], of a clock that does not go back
  void open(double now);
  /// @param count steps since those that were in a round, at least 1
  void ready(Rank rank, std::uint64_t count, double now);
  /// Closes the round if a quorum is ready and either all others are, or the time of grace has
  /// passed and no other rank must be waited for.
  std::optional<Closing> close(double now);
  /// Closes it as soon as these ranks are ready, in a replay. @param counts 0: not a member
  /// @throws Error{data} if another number of steps is ready
  std::optional<Closing> close_as(std::span<const double> counts, double now);
  /// Rounds in a row without each rank, to be kept from one epoch to the next.
  std::span<std::uint64_t> missed() noexcept { return missed_; }

 private:
  std::size_t ready_count() const;
  double grace() const;
  Closing take(const std::vector<bool>& members, double now);

  const QuorumRule rule_;
  std::vector<std::uint64_t> counts_;  // 0: not ready
  std::vector<std::uint64_t> missed_;
  double began_ = 0;                         // this round
  std::optional<double> quorum_since_ = {};  // when the quorum was ready
  std::optional<double> last_seconds_ = {};  // of the last round of this epoch
};

/// A rank's memory in rounds of which it may not be a member: what was not sent stays as it is
/// while the rank sends nothing.
class QuorumMemory final : public collective::GradientMemory {
 public:
  /// Keeps the reference.
  explicit QuorumMemory(collective::GradientMemory& inner) : inner_(inner) {}

  /// Sets whether the rank is a member of the rounds that follow.
  void set_member(bool member) noexcept { member_ = member; }

  void begin() override {
    if (member_) inner_.begin();
  }
  void prepare(const collective::FusionBucket& bucket, std::span<float> gradient) override {
    if (member_) inner_.prepare(bucket, gradient);
  }
  void compensate(const collective::FusionBucket& bucket, std::span<float> gradient) override {
    if (member_) inner_.compensate(bucket, gradient);
  }
  void remember(const collective::FusionBucket& bucket,
                const collective::Contribution& contribution) override {
    if (member_) inner_.remember(bucket, contribution);
  }
  std::span<float> residual() override { return member_ ? inner_.residual() : std::span<float>(); }
  void visit_state(StateVisitor& visitor) override { inner_.visit_state(visitor); }

 private:
  collective::GradientMemory& inner_;
  bool member_ = true;
};

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
