// SPDX-License-Identifier: Apache-2.0
// Values that are not finite, named and reported.

#include "sync/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codec/finite.hpp"
#include "core/error.hpp"

namespace eqt::sync {

std::optional<std::string> name_non_finite(const Layout& layout, std::span<const float> values,
                                           std::size_t begin) {
  const std::size_t bad = codec::first_non_finite(values);
  if (bad == values.size()) return {};
  const std::size_t at = begin + bad;
  const auto next = std::upper_bound(
      layout.begin(), layout.end(), at,
      [](std::size_t value, const TensorSlice& slice) { return value < slice.offset; });
  const TensorSlice& slice = *std::prev(next);
  return fmt::format("{} holds {} at index {}", slice.name, values[bad], at - slice.offset);
}

void Divergence::found(const std::string& sentence) {
  if (!recovers_) fail(Kind::diverged, "{}", sentence);
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = sentence;
}

bool Divergence::any() const {
  const std::lock_guard lock(mutex_);
  return first_.has_value();
}

std::string Divergence::sentence() const {
  const std::lock_guard lock(mutex_);
  return first_.value_or("");
}

void Divergence::forget() {
  const std::lock_guard lock(mutex_);
  first_.reset();
}

void require_finite(const Layout& layout, std::span<float> values, std::size_t begin,
                    std::string_view what, StepId step, Rank rank, Divergence* divergence) {
  const auto named = name_non_finite(layout, values, begin);
  if (!named) return;
  const std::string sentence = fmt::format(
      "step {}: {} of {} on rank {}; try a smaller optimizer.learning_rate or a "
      "schedule.warmup_epochs",
      step, what, *named, rank);
  if (divergence == nullptr) fail(Kind::diverged, "{}", sentence);
  divergence->found(sentence);
  std::ranges::replace_if(
      values, [](float value) { return !std::isfinite(value); }, 0.0f);
}

}  // namespace eqt::sync
