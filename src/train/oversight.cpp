// SPDX-License-Identifier: Apache-2.0
#include "train/oversight.hpp"

#include <algorithm>
#include <limits>

namespace eqt::train {
namespace {

constexpr double kSeconds = 0.5;  // between two reports
constexpr double kMostSteps = 1000;
constexpr StepId kPatience = 4;  // intervals until ranks meet for the report's sake

/// A rank or nothing, coded so that the maximum over ranks tells whether there is one.
double number_of(bool any, Rank rank) { return any ? rank + 1.0 : 0.0; }

std::optional<Rank> rank_of(double number) {
  if (number <= 0) return {};
  return static_cast<Rank>(number) - 1;
}

}  // namespace

Oversight::Oversight(comm::Communicator& comm, bool every_step)
    : comm_(comm), every_step_(every_step) {}

bool Oversight::is_due(bool meets) const noexcept {
  if (every_step_) return true;
  return since_ + 1 >= (meets ? interval_ : kPatience * interval_);
}

Verdict Oversight::after_step(double step_seconds, bool meets, const Report& report) {
  const bool due = is_due(meets);
  ++since_;
  seconds_ += step_seconds;
  Verdict verdict;
  if (under_way_) verdict = receive();
  if (due && verdict.clear()) send(report);
  return verdict;
}

Verdict Oversight::now(const Report& report) {
  Verdict before;
  if (under_way_) before = receive();
  send(report);
  Verdict verdict = receive();
  if (!verdict.stop) verdict.stop = before.stop;
  if (!verdict.diverged) verdict.diverged = before.diverged;
  verdict.replicas_differ |= before.replicas_differ;
  return verdict;
}

void Oversight::send(const Report& report) {
  words_.fill(-std::numeric_limits<double>::infinity());
  words_[kStop] = number_of(report.stop, comm_.rank());
  words_[kDiverged] = number_of(report.diverged, comm_.rank());
  if (comm_.rank() == 0) words_[kInterval] = next_interval();
  if (report.hash) {
    // Halves are exact in a double; x and -x have opposite maxima only if all x are equal.
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

Verdict Oversight::receive() {
  comm_.finish_max();
  under_way_ = false;
  interval_ = static_cast<StepId>(words_[kInterval]);
  const bool compared = words_[kHigh] >= 0;
  return {.stop = rank_of(words_[kStop]),
          .diverged = rank_of(words_[kDiverged]),
          .replicas_differ = compared && (words_[kHigh] != -words_[kMinusHigh] ||
                                          words_[kLow] != -words_[kMinusLow])};
}

/// From rank 0's own steps since the last report.
double Oversight::next_interval() const {
  const double step = seconds_ / static_cast<double>(std::max<StepId>(since_, 1));
  return step > 0 ? std::clamp(kSeconds / step, 1.0, kMostSteps) : 1.0;
}

}  // namespace eqt::train
