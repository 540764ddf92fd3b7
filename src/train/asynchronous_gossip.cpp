// SPDX-License-Identifier: Apache-2.0
#include "train/asynchronous_gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "comm/watchdog.hpp"
#include "train/background_thread.hpp"
#include "train/pairwise_progress.hpp"

namespace eqt::train {
namespace {

class AsynchronousGossip final : public Synchronizer {
 public:
  AsynchronousGossip(const AsynchronousGossipParts& parts, const PairwiseExchangeOptions& options)
      : p_(parts),
        watchdog_(options.timeout_seconds, parts.comm.rank(), parts.comm.size()),
        progress_(parts.comm.rank(), static_cast<std::size_t>(parts.comm.size()),
                  options.role.active, options.role.partners.empty()),
        exchange_(parts.comm, parts.pairs, parts.plan, progress_, options),
        background_([this] { run_exchange(); }, [this] { give_up(); }) {}

  void begin(StepId step, std::uint64_t) override {
    watchdog_.disarm();
    if (!exchanging_) {
      p_.model.reset(p_.parameters);
      progress_.open_epoch();
      background_.start();
      exchanging_ = true;
    }
    progress_.begin_step();
    rethrow();
    step_ = step;
    watch_step();
  }

  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }

  SyncResult after_update(float) override {
    p_.model.synchronize(p_.parameters);
    progress_.end_step();
    rethrow();
    ++step_;
    watch_step();
    return result();
  }

  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return exchange_.sent_bytes_by_peer();
  }

  std::uint64_t steps_of_all_ranks() override { return progress_.steps_of_all(); }
  StepId own_steps() override { return progress_.own_steps(); }

  /// Another number of ranks starts as if all had taken the mean rank's steps, with new pairs.
  void visit_state(StateVisitor& visitor) override {
    std::vector<StepId> steps(static_cast<std::size_t>(p_.comm.size()));
    progress_.steps(steps);
    std::uint64_t mean = progress_.steps_of_all() / steps.size();
    visitor.number("mean steps", mean, Across::same);
    if (visitor.restores()) steps.assign(steps.size(), mean);
    visitor.numbers("steps", steps, Across::fresh);
    if (visitor.restores()) progress_.set_steps(steps);
    visit_in(visitor, "pairs", exchange_);
  }

  SyncResult end_epoch() override {
    watchdog_.disarm();
    progress_.close_epoch();
    background_.finish();
    exchanging_ = false;
    p_.model.synchronize(p_.parameters);
    SyncResult last = result();
    std::string note = agree_on_steps();
    if (p_.comm.rank() == 0) last.note = std::move(note);
    return last;
  }

 private:
  /// Starts the step's deadline here, because what happens before begin() is part of the step.
  void watch_step() {
    watchdog_.set_step(step_);
    watchdog_.arm("a step between averages", p_.comm.rank());
  }

  void run_exchange() {
    try {
      exchange_.run();
    } catch (...) {
      progress_.fail();
      throw;
    }
  }

  void give_up() {
    progress_.fail();
    p_.comm.cancel();
  }

  /// Throws the communication thread's error, if there was one.
  void rethrow() {
    if (progress_.failed()) background_.finish();
  }

  SyncResult result() {
    PairwiseProgress::Taken taken = progress_.take();
    return {taken.traffic, taken.variance, {}};
  }

  /// Called when no rank sends any more: makes the counts equal on all ranks. @return a note about
  /// the epoch
  std::string agree_on_steps() {
    const std::vector<StepId> steps = p_.comm.allgather(progress_.own_steps());
    progress_.set_steps(steps);
    const PairwiseProgress::Exchanges own = progress_.exchanges();
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
  comm::Watchdog watchdog_;  // for this rank's steps; waits for others use the communicator's
  PairwiseProgress progress_;
  PairwiseExchange exchange_;
  bool exchanging_ = false;
  StepId step_ = 0;
  BackgroundThread background_;  // last: its thread uses all of the above
};

}  // namespace

std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const PairwiseExchangeOptions& options) {
  return std::make_unique<AsynchronousGossip>(parts, options);
}

}  // namespace eqt::train
