// SPDX-License-Identifier: Apache-2.0
// How the console writes single figures.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "metrics/records.hpp"

namespace eqt::metrics {

inline std::string percent(const std::optional<double>& fraction) {
  return known(fraction) ? fmt::format("{:.2f} %", *fraction * 100) : "-";
}

/// "56.78 %", "0.1234".
inline std::string value_text(const MetricRecord& metric, const std::optional<double>& value) {
  if (metric.fraction) return percent(value);
  return known(value) ? fmt::format("{:.4g}", *value) : "-";
}

/// Those with rows of their own.
inline bool has_own_row(const MetricRecord& metric) {
  return metric.name == "accuracy" || metric.name == "loss";
}

inline std::uint64_t per_rank(std::uint64_t bytes, int ranks) {
  return bytes / static_cast<std::uint64_t>(std::max(ranks, 1));
}

/// Writes three digits, or all of a whole part that has more: 0.0123, 1.23, 812.
inline std::string rate(const std::optional<double>& x) {
  if (!known(x)) return "-";
  return *x >= 100 ? fmt::format("{:.0f}", *x) : fmt::format("{:.3g}", *x);
}

}  // namespace eqt::metrics
