// SPDX-License-Identifier: Apache-2.0
// The communication thread of a rank that averages in pairs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "gossip/pair_note.hpp"
#include "gossip/pair_roles.hpp"
#include "gossip/pairwise.hpp"
#include "pipeline/engine.hpp"
#include "train/edge_count.hpp"
#include "train/fault.hpp"
#include "train/pair_tally.hpp"

namespace eqt::train {

struct PairTalkOptions {
  gossip::PairRole role;
  bool lossy = false;          // measure the quantization variance every few exchanges
  double timeout_seconds = 0;  // 0 = none
  std::optional<Fault> fault;  // with a bucket: struck before the first exchange after its step
};

/// Asks or answers for an epoch. All MPI of the rank happens in here while run() lasts.
class PairTalk {
 public:
  PairTalk(comm::Communicator& comm, gossip::PairwiseAveraging& pairs,
           std::span<const pipeline::FusionBucket> plan, PairTally& tally,
           const PairTalkOptions& options);
  ~PairTalk();
  PairTalk(const PairTalk&) = delete;
  PairTalk& operator=(const PairTalk&) = delete;

  /// Active: asks each partner in turn, as often as the trainer wants, and at the end tells all
  /// that it has ended. Passive: answers until its trainer and all its partners have ended the
  /// epoch.
  /// @throws Error{timeout} naming a partner that should have asked and has not, Error{wire}
  void run();
  /// By receiver, up to the last run.
  std::span<const std::uint64_t> sent_bytes_by_peer() const { return edges_.sent(); }
  /// While nothing runs.
  void visit_state(StateVisitor& visitor);

 private:
  struct Link {
    gossip::Partner partner;
    std::uint64_t exchanges = 0;  // of this pair so far
    bool left = false;            // asks no more in this epoch
    Stopwatch heard{};            // since it last asked
    std::vector<std::byte> note_in{}, note_out{};
    comm::Incoming incoming{};
    comm::Outgoing outgoing{};
    comm::Exchange hearing{}, telling{};
  };

  void ask_in_turn();
  void answer_all();
  void ask(Link& link);
  bool answer_asked();
  void hear(Link& link);
  void average(Link& link, Rank asking);
  void start_hearing(Link& link, bool at_any_time);
  void start_telling(Link& link, gossip::NoteKind kind);
  void read(Link& link);
  Traffic bytes_since();
  void check_silence() const;
  bool all_left() const;
  void strike();

  comm::Communicator& comm_;
  gossip::PairwiseAveraging& pairs_;
  PairTally& tally_;
  const PairTalkOptions options_;
  pipeline::Engine engine_;
  std::vector<Link> links_;  // never resized: exchanges point into it
  std::size_t turn_ = 0;
  std::uint64_t exchanges_ = 0;
  EdgeCount edges_;            // open while run() lasts, since the tally last heard of bytes
  gossip::PairNote note_;      // last read
  std::vector<StepId> known_;  // last told
};

}  // namespace eqt::train
