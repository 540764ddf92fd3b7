// SPDX-License-Identifier: Apache-2.0
#include "codec/lossless/exponent_model.hpp"

#include <algorithm>

namespace eqt::codec {
namespace {

// An exponent that is rarer than one value in this many is an escape. A code of its own takes a
// 256-th of the model from all values; an escape costs its value 8 bits more than the code does.
constexpr std::uint64_t kRare = 1024;

}  // namespace

ExponentCounts count_exponents(std::span<const std::uint8_t> exponents) {
  // Four tables, because an addition to a counter waits for the one before.
  std::array<ExponentCounts, 4> part{};
  std::size_t i = 0;
  for (; i + 4 <= exponents.size(); i += 4)
    for (std::size_t k = 0; k < 4; ++k) ++part[k][exponents[i + k]];
  for (; i < exponents.size(); ++i) ++part[0][exponents[i]];
  for (std::size_t e = 0; e < part[0].size(); ++e)
    part[0][e] += part[1][e] + part[2][e] + part[3][e];
  return part[0];
}

ExponentCodes choose_codes(const ExponentCounts& counts, std::size_t values, std::uint8_t first) {
  const std::size_t most = kExponentCodes - 1 - first;  // one code is the escape
  std::size_t top = 0, width = 0;
  std::uint64_t sum = 0, best = 1;
  for (std::size_t end = 0; end <= kMaxExponent; ++end) {
    sum += counts[end];
    if (end >= most) sum -= counts[end - most];
    if (sum < best) continue;
    best = sum;
    top = end;
    width = std::min(most, end + 1);
  }
  const auto is_rare = [&](std::size_t exponent) { return counts[exponent] * kRare < values; };
  for (; width > 0 && is_rare(top); --width) top -= width > 1 ? 1 : top;
  while (width > 0 && is_rare(top + 1 - width)) --width;
  return {.top = static_cast<std::uint8_t>(top),
          .first = first,
          .escape = static_cast<std::uint8_t>(first + width)};
}

IndexCounts code_counts(const ExponentCounts& counts, const ExponentCodes& code,
                        std::size_t zeros) {
  IndexCounts result{};
  for (const std::uint32_t count : counts) result[code.escape] += count;
  for (std::size_t k = 0; k + code.first < code.escape; ++k) {
    result[code.first + k] = counts[code.top - k];
    result[code.escape] -= counts[code.top - k];
  }
  if (code.first > 0) result[0] = zeros;
  return result;
}

}  // namespace eqt::codec
