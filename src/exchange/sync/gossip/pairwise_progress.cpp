// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/pairwise_progress.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::sync {
namespace {

// A passive rank may take this many steps without an exchange. That suffices for a rank that is
// eight times as fast as its partners; with more, on a slow network, it would train alone.
constexpr StepId kMaxStepsAlone = 16;

}  // namespace

PairwiseProgress::PairwiseProgress(Rank rank, std::size_t ranks, bool active, bool alone)
    : rank_(static_cast<std::size_t>(rank)), active_(active), alone_(alone), steps_(ranks) {}

void PairwiseProgress::open_epoch() {
  const std::lock_guard lock(mutex_);
  closed_ = ending_ = asked_ = false;
  exchanges_ = {};
  last_exchange_ = steps_[rank_];
}

void PairwiseProgress::begin_step() {
  if (alone_) return;
  const Stopwatch wait;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    if (goes_on()) return true;
    return active_ ? !asked_ : steps_[rank_] - last_exchange_ < kMaxStepsAlone;
  });
  taken_.traffic.transfer_seconds += wait.seconds();
  if (!active_) return;
  asked_ = true;
  changed_.notify_all();
}

void PairwiseProgress::end_step() {
  const std::lock_guard lock(mutex_);
  ++steps_[rank_];
}

std::uint64_t PairwiseProgress::steps_of_all() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(steps_.begin(), steps_.end(), std::uint64_t{0});
}

PairwiseProgress::Taken PairwiseProgress::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(taken_, {});
}

PairwiseProgress::Exchanges PairwiseProgress::exchanges() const {
  const std::lock_guard lock(mutex_);
  return {exchanges_.count, std::max(exchanges_.longest, steps_[rank_] - last_exchange_)};
}

void PairwiseProgress::set_steps(std::span<const StepId> steps) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(steps, steps_.begin());
}

bool PairwiseProgress::wait_for_ask() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failed_ || asked_ || closed_; });
  return asked_ && !failed_;
}

void PairwiseProgress::merge(std::span<const StepId> steps) {
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < steps_.size(); ++r) {
    if (r != rank_) steps_[r] = std::max(steps_[r], steps[r]);
  }
}

void PairwiseProgress::steps(std::span<StepId> steps) const {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(steps_, steps.begin());
}

StepId PairwiseProgress::own_steps() const {
  const std::lock_guard lock(mutex_);
  return steps_[rank_];
}

void PairwiseProgress::exchanged(const Traffic& traffic, const MessageError& message) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  ++exchanges_.count;
  exchanges_.longest = std::max(exchanges_.longest, steps_[rank_] - last_exchange_);
  last_exchange_ = steps_[rank_];
  taken_.traffic += traffic;
  if (message.exact > 0) taken_.variance = message.error / message.exact;
  changed_.notify_all();
}

void PairwiseProgress::spent(const Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  taken_.traffic += traffic;
}

void PairwiseProgress::partner_left() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  changed_.notify_all();
}

}  // namespace eqt::sync
