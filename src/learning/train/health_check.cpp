// SPDX-License-Identifier: Apache-2.0
#include "train/health_check.hpp"

#include <algorithm>
#include <limits>

namespace eqt::train {
namespace {

constexpr double kSeconds = 0.5;  // between two reports
constexpr double kMaxSteps = 1000;
constexpr StepId kIdleIntervals = 4;  // intervals after which ranks exchange the report in any step

/// A rank or none, coded as a number, so that the maximum over ranks shows whether there is one.
double number_of(bool any, Rank rank) { return any ? rank + 1.0 : 0.0; }

std::optional<Rank> rank_of(double number) {
  if (number <= 0) return {};
  return static_cast<Rank>(number) - 1;
}

}  // namespace

HealthCheck::HealthCheck(comm::Communicator& comm, bool every_step)
    : comm_(comm), every_step_(every_step) {}

bool HealthCheck::is_due(bool meets) const noexcept {
  if (every_step_) return true;
  return since_ + 1 >= (meets ? interval_ : kIdleIntervals * interval_);
}

HealthStatus HealthCheck::after_step(double step_seconds, bool meets, const HealthReport& report) {
  const bool due = is_due(meets);
  ++since_;
  seconds_ += step_seconds;
  HealthStatus status;
  if (under_way_) status = receive();
  if (due && status.clear()) send(report);
  return status;
}

HealthStatus HealthCheck::now(const HealthReport& report) {
  HealthStatus before;
  if (under_way_) before = receive();
  send(report);
  HealthStatus status = receive();
  if (!status.stop) status.stop = before.stop;
  if (!status.diverged) status.diverged = before.diverged;
  status.replicas_differ |= before.replicas_differ;
  status.save |= before.save;
  status.written |= before.written;
  return status;
}

void HealthCheck::send(const HealthReport& report) {
  words_.fill(-std::numeric_limits<double>::infinity());
  words_[kStop] = number_of(report.stop, comm_.rank());
  words_[kDiverged] = number_of(report.diverged, comm_.rank());
  if (comm_.rank() == 0) words_[kInterval] = next_interval();
  words_[kSave] = report.save ? 1 : 0;
  words_[kUnwritten] = report.written ? 0 : 1;
  if (report.hash) {
    // Halves of the hash are exact in a double. max(x) = -max(-x) only if all x are equal.
    words_[kHigh] = static_cast<double>(*report.hash >> 32);
    words_[kLow] = static_cast<double>(*report.hash & 0xFFFFFFFFu);
    words_[kMinusHigh] = -words_[kHigh];
    words_[kMinusLow] = -words_[kLow];
  }
  comm_.start_max(words_);
  under_way_ = true;
  since_ = 0;
  seconds_ = 0;
}

HealthStatus HealthCheck::receive() {
  comm_.finish_max();
  under_way_ = false;
  interval_ = static_cast<StepId>(words_[kInterval]);
  const bool compared = words_[kHigh] >= 0;
  return {.stop = rank_of(words_[kStop]),
          .diverged = rank_of(words_[kDiverged]),
          .replicas_differ = compared && (words_[kHigh] != -words_[kMinusHigh] ||
                                          words_[kLow] != -words_[kMinusLow]),
          .save = words_[kSave] > 0,
          .written = words_[kUnwritten] == 0};
}

/// Computes the interval [steps] from rank 0's own steps since the last report.
double HealthCheck::next_interval() const {
  const double step = seconds_ / static_cast<double>(std::max<StepId>(since_, 1));
  return step > 0 ? std::clamp(kSeconds / step, 1.0, kMaxSteps) : 1.0;
}

}  // namespace eqt::train
