// SPDX-License-Identifier: Apache-2.0
// Values that are not finite: the run ends, or returns to an earlier state.

#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::sync {

/// "layer1.0.conv1.weight holds nan at index 3": the first value of `values` that is NaN or
/// infinite; empty if all are finite.
/// @param begin index of the first of `values` in the buffer that `layout` describes
std::optional<std::string> name_non_finite(const Layout& layout, std::span<const float> values,
                                           std::size_t begin = 0);

/// Collects the reports of a rank's threads. Thread-safe.
class Divergence {
 public:
  /// @param recovers the run will be rolled back
  explicit Divergence(bool recovers) : recovers_(recovers) {}

  bool recovers() const noexcept { return recovers_; }
  /// Keeps the first sentence since the last forget(). @throws Error{diverged} unless recovers()
  void found(const std::string& sentence);
  bool any() const;
  std::string sentence() const;
  void forget();

 private:
  const bool recovers_;
  mutable std::mutex mutex_;
  std::optional<std::string> first_;
};

/// Reports the first value that is not finite as "step 3: WHAT of conv1.weight holds nan at index 0
/// on rank 1; try ...". If the run recovers, all such values become 0, so that they have no further
/// effect until the rollback.
/// @param divergence null: as if it did not recover
void require_finite(const Layout& layout, std::span<float> values, std::size_t begin,
                    std::string_view what, StepId step, Rank rank, Divergence* divergence);

}  // namespace eqt::sync
