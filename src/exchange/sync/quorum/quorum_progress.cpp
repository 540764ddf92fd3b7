// SPDX-License-Identifier: Apache-2.0
// A rank's trainer and its communication thread change the common model and its own by these.

#include "sync/quorum/quorum_progress.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::sync {
QuorumProgress::QuorumProgress(const QuorumProgressOptions& options)
    : o_(options),
      reference_(options.values),
      momentum_(options.outer.momentum != 0 ? options.values : 0),
      own_(options.values),
      shift_(options.values) {
  EQT_CHECK(o_.delay >= 1 && o_.delay <= o_.local_steps, "a delay of {} of {} steps", o_.delay,
            o_.local_steps);
  EQT_CHECK(!o_.outer.mixing && !o_.outer.by_rate, "mixing or common rates with a quorum");
}

void QuorumProgress::start(std::span<const float> parameters) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(parameters, reference_.span().begin());
}

void QuorumProgress::open(std::uint64_t goal) {
  const std::lock_guard lock(mutex_);
  goal_ = goal;
  closed_ = ended_ = stopping_ = announced_ = false;
  if (outstanding_) due_ = own_steps_ + o_.delay;
}

bool QuorumProgress::would_wait() const {
  const std::lock_guard lock(mutex_);
  if (gives_up()) return false;
  if (replays()) {
    const std::uint64_t round = o_.replay->applied_after(o_.rank, own_steps_ + 1);
    return round > rounds_;
  }
  return outstanding_ && own_steps_ + 1 >= due_ && !own_in_shift_;
}

bool QuorumProgress::end_step(std::span<float> parameters) {
  std::unique_lock lock(mutex_);
  ++own_steps_;
  if (replays()) {
    if (const std::uint64_t round = o_.replay->applied_after(o_.rank, own_steps_); round > taken_) {
      want_ = round;
      changed_.notify_all();
      changed_.wait(lock, [&] { return rounds_ >= round || gives_up(); });
      if (rounds_ > taken_) merge(parameters);
    }
  } else {
    if (is_due()) {
      const Stopwatch wait;
      changed_.wait(lock, [this] { return own_in_shift_ || gives_up(); });
      spent_.traffic.transfer_seconds += wait.seconds();
    }
    if (rounds_ > taken_ && (!own_in_shift_ || is_due())) merge(parameters);
  }
  if (outstanding_ || own_steps_ - made_ < o_.local_steps) return false;
  make_difference(parameters);
  return true;
}

/// x += p - s for the rounds that have come, one of which has p; else x -= s.
void QuorumProgress::merge(std::span<float> parameters) {
  const auto own = own_.span(), shift = shift_.span();
  if (own_in_shift_) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += own[i] - shift[i];
    outstanding_ = own_in_shift_ = false;
  } else {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= shift[i];
  }
  spent_.rounds += static_cast<unsigned>(rounds_ - taken_);
  while (taken_ < rounds_) applied_.push_back({++taken_, own_steps_});
  counted_here_ = counted_all_;
  changed_.notify_all();
}

/// @pre all rounds that have come are applied
void QuorumProgress::make_difference(std::span<const float> parameters) {
  const auto own = own_.span(), reference = reference_.span();
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = reference[i] - parameters[i];
  outstanding_ = true;
  announced_ = false;
  made_ = own_steps_;
  due_ = own_steps_ + o_.delay;
  changed_.notify_all();
}

void QuorumProgress::apply_rest(std::span<float> parameters) {
  const std::lock_guard lock(mutex_);
  if (rounds_ > taken_) merge(parameters);
}

std::uint64_t QuorumProgress::make_last(std::span<const float> parameters,
                                        std::span<float> difference) {
  const std::lock_guard lock(mutex_);
  make_difference(parameters);
  std::ranges::copy(own_.span(), difference.begin());
  return own_steps_ - counted_;
}

void QuorumProgress::apply_last(std::span<const float> mean, std::uint64_t counted,
                                std::span<float> parameters) {
  const std::lock_guard lock(mutex_);
  const auto reference = reference_.span(), momentum = momentum_.span();
  float unused = 0;
  for (std::size_t i = 0; i < mean.size(); ++i)
    reference[i] -= o_.outer.of(mean[i], momentum.empty() ? unused : momentum[i], 1);
  std::ranges::copy(reference, parameters.begin());
  outstanding_ = false;
  counted_ = own_steps_;
  counted_here_ = counted_all_ += counted;
  ++spent_.rounds;
}

std::uint64_t QuorumProgress::counted() const {
  const std::lock_guard lock(mutex_);
  return counted_here_;
}

StepId QuorumProgress::own_steps() const {
  const std::lock_guard lock(mutex_);
  return own_steps_;
}

QuorumProgress::Taken QuorumProgress::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spent_, {});
}

std::vector<QuorumProgress::Applied> QuorumProgress::take_applied() {
  const std::lock_guard lock(mutex_);
  return std::exchange(applied_, {});
}

std::optional<std::uint64_t> QuorumProgress::take_ready() {
  const std::lock_guard lock(mutex_);
  if (!outstanding_ || own_in_shift_ || announced_) return {};
  announced_ = true;
  return made_ - counted_;
}

void QuorumProgress::copy_own(std::span<float> difference) const {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(own_.span(), difference.begin());
}

void QuorumProgress::apply(std::uint64_t round, std::span<const std::uint64_t> counts,
                           std::span<const float> mean) {
  std::unique_lock lock(mutex_);
  if (o_.replay != nullptr && o_.replay->has(round))
    changed_.wait(lock, [&] { return want_ >= round || failed_ || closed_; });
  const auto reference = reference_.span(), momentum = momentum_.span(), shift = shift_.span();
  const bool first = rounds_ == taken_;
  float unused = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float step = o_.outer.of(mean[i], momentum.empty() ? unused : momentum[i], 1);
    reference[i] -= step;
    shift[i] = first ? step : shift[i] + step;
  }
  rounds_ = round;
  counted_all_ += std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (counts[static_cast<std::size_t>(o_.rank)] > 0) {
    own_in_shift_ = true;
    counted_ = made_;
  }
  changed_.notify_all();
}

std::uint64_t QuorumProgress::rounds() const {
  const std::lock_guard lock(mutex_);
  return rounds_;
}

bool QuorumProgress::epoch_complete() const {
  const std::lock_guard lock(mutex_);
  return counted_all_ >= goal_;
}

void QuorumProgress::spent(const Traffic& traffic, std::optional<double> variance) {
  const std::lock_guard lock(mutex_);
  spent_.traffic += traffic;
  if (variance) spent_.variance = variance;
}

void QuorumProgress::note_stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void QuorumProgress::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// With another number of ranks all go on from r, as if each had taken the mean rank's steps.
void QuorumProgress::visit_state(StateVisitor& visitor) {
  const std::lock_guard lock(mutex_);
  EQT_CHECK(rounds_ == taken_, "a checkpoint with rounds that are not applied");
  visitor.values("last average", reference_.span(), Across::same);
  if (o_.outer.momentum != 0) visitor.values("outer momentum", momentum_.span(), Across::same);
  std::uint64_t rounds = rounds_, mean = counted_all_ / o_.ranks;
  visitor.number("rounds", rounds, Across::same);
  visitor.number("mean steps", mean, Across::same);
  if (visitor.restores()) {
    outstanding_ = false;
    own_steps_ = made_ = counted_ = mean;
    counted_all_ = mean * o_.ranks;
    rounds_ = taken_ = rounds;
  }
  std::array<std::uint64_t, 5> own = {own_steps_, made_, counted_, outstanding_ ? 1u : 0u,
                                      counted_all_};
  visitor.numbers("own steps", own, Across::fresh);
  visitor.values("own difference", own_.span(), Across::fresh);
  if (!visitor.restores()) return;
  own_steps_ = own[0];
  made_ = own[1];
  counted_ = own[2];
  outstanding_ = own[3] != 0;
  counted_here_ = counted_all_ = own[4];
}

}  // namespace eqt::sync
