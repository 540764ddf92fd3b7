// SPDX-License-Identifier: Apache-2.0
#include "train/asynchronous_gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "comm/watchdog.hpp"
#include "train/background.hpp"
#include "train/pair_tally.hpp"

namespace eqt::train {
namespace {

class AsynchronousGossip final : public Synchronizer {
 public:
  AsynchronousGossip(const AsynchronousGossipParts& parts, const PairTalkOptions& options)
      : p_(parts),
        watchdog_(options.timeout_seconds, parts.comm.rank(), parts.comm.size()),
        tally_(parts.comm.rank(), static_cast<std::size_t>(parts.comm.size()), options.role.active,
               options.role.partners.empty()),
        talk_(parts.comm, parts.pairs, parts.plan, tally_, options),
        background_([this] { talk(); }, [this] { give_up(); }) {}

  void begin(StepId step, std::uint64_t) override {
    watchdog_.disarm();
    if (!talking_) {
      p_.model.reset(p_.parameters);
      tally_.open_epoch();
      background_.start();
      talking_ = true;
    }
    tally_.begin_step();
    rethrow();
    step_ = step;
    watch_step();
  }

  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }

  SyncResult after_update(float) override {
    p_.model.trade(p_.parameters);
    tally_.end_step();
    rethrow();
    ++step_;
    watch_step();
    return result();
  }

  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return talk_.sent_bytes_by_peer();
  }

  std::uint64_t steps_of_all_ranks() override { return tally_.steps_of_all(); }
  StepId own_steps() override { return tally_.own_steps(); }

  /// Other ranks begin as if all had taken the mean rank's steps, and their pairs are new.
  void visit_state(StateVisitor& visitor) override {
    std::vector<StepId> steps(static_cast<std::size_t>(p_.comm.size()));
    tally_.steps(steps);
    std::uint64_t mean = tally_.steps_of_all() / steps.size();
    visitor.number("mean steps", mean, Across::same);
    if (visitor.restores()) steps.assign(steps.size(), mean);
    visitor.numbers("steps", steps, Across::fresh);
    if (visitor.restores()) tally_.set_steps(steps);
    visit_in(visitor, "pairs", talk_);
  }

  SyncResult end_epoch() override {
    watchdog_.disarm();
    tally_.close_epoch();
    background_.finish();
    talking_ = false;
    p_.model.trade(p_.parameters);
    SyncResult last = result();
    std::string note = settle();
    if (p_.comm.rank() == 0) last.note = std::move(note);
    return last;
  }

 private:
  /// From now on: what comes before begin() belongs to the step, too.
  void watch_step() {
    watchdog_.set_step(step_);
    watchdog_.arm("a step between averages", p_.comm.rank());
  }

  void talk() {
    try {
      talk_.run();
    } catch (...) {
      tally_.fail();
      throw;
    }
  }

  void give_up() {
    tally_.fail();
    p_.comm.cancel();
  }

  /// Throws the communication thread's error, if there was one.
  void rethrow() {
    if (tally_.failed()) background_.finish();
  }

  SyncResult result() {
    PairTally::Taken taken = tally_.take();
    return {taken.traffic, taken.variance, {}};
  }

  /// To be called when no rank sends any more: makes the counts equal on all ranks. @return a note
  /// about the epoch
  std::string settle() {
    const std::vector<StepId> steps = p_.comm.allgather(tally_.own_steps());
    tally_.set_steps(steps);
    const PairTally::Exchanges own = tally_.exchanges();
    std::array<double, 1> both = {static_cast<double>(own.count)};
    std::array<double, 1> longest = {static_cast<double>(own.longest)};
    p_.comm.allreduce_sum(both);
    p_.comm.allreduce_max(longest);
    const auto [least, most] = std::ranges::minmax_element(steps);
    return fmt::format(
        "{:.0f} exchanges of pairs; at most {:.0f} steps of a rank between two of its own; steps "
        "so far from {} (rank {}) to {} (rank {})",
        both[0] / 2, longest[0], *least, least - steps.begin(), *most, most - steps.begin());
  }

  const AsynchronousGossipParts p_;
  comm::Watchdog watchdog_;  // of this rank's steps; waiting for others has the communicator's
  PairTally tally_;
  PairTalk talk_;
  bool talking_ = false;
  StepId step_ = 0;
  Background background_;  // last: its thread uses all of the above
};

}  // namespace

std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const PairTalkOptions& options) {
  return std::make_unique<AsynchronousGossip>(parts, options);
}

}  // namespace eqt::train
