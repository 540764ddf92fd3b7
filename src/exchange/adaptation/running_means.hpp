// SPDX-License-Identifier: Apache-2.0
// Means over observations in which old ones count less and less.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/saved_state.hpp"

namespace eqt::adaptation {

/// Exponential means of several numbers, without the bias of their start.
class RunningMeans {
 public:
  /// @param kept of what a number counts, by the next observation
  RunningMeans(std::size_t count, double kept) : kept_(kept), sums_(count) {}

  /// @pre as many numbers
  void add(std::span<const double> numbers) {
    EQT_CHECK(numbers.size() == sums_.size(), "{} numbers for {} means", numbers.size(),
              sums_.size());
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = kept_ * sums_[i] + (1 - kept_) * numbers[i];
    weight_ = kept_ * weight_ + (1 - kept_);
  }
  bool empty() const noexcept { return weight_ == 0; }
  /// 0 before the first add().
  double operator[](std::size_t i) const { return empty() ? 0 : sums_.at(i) / weight_; }

  void visit_state(StateVisitor& visitor) {
    visitor.doubles("sums", sums_, Across::same);
    visitor.real("weight", weight_, Across::same);
  }

 private:
  double kept_;
  std::vector<double> sums_;
  double weight_ = 0;
};

}  // namespace eqt::adaptation
