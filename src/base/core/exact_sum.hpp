// SPDX-License-Identifier: Apache-2.0
// A sum of doubles that does not depend on their order or grouping.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace eqt {

/// Sums up to 2^31 finite values of at least 0 without rounding. It holds digits of 32 bits from
/// 2^-1074 up, each in a 64-bit word that has room for carries.
class ExactSum {
 public:
  /// @pre x is finite and not negative
  void add(double x) noexcept {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t field = bits >> 52;
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    if (field > 0) mantissa |= std::uint64_t{1} << 52;
    const std::uint64_t place = std::max<std::uint64_t>(field, 1) - 1;  // of its lowest bit
    const std::uint64_t shift = place % kDigitBits;
    const std::uint64_t low = (mantissa & kDigit) << shift;
    const std::uint64_t high = (mantissa >> kDigitBits) << shift;
    std::uint64_t* digit = digits_.data() + place / kDigitBits;
    digit[0] += low & kDigit;
    digit[1] += (low >> kDigitBits) + (high & kDigit);
    digit[2] += high >> kDigitBits;
  }

  /// The sum, within one unit in the last place. It depends on the exact sum only.
  double value() const noexcept {
    std::array<std::uint64_t, kDigits> carried{};
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < kDigits; ++i) {
      carry += digits_[i];
      carried[i] = carry & kDigit;
      carry >>= kDigitBits;
    }
    std::size_t top = kDigits;
    while (top > 0 && carried[top - 1] == 0) --top;
    double sum = 0;
    for (std::size_t i = top - std::min<std::size_t>(top, 3); i < top; ++i) {
      sum += std::ldexp(static_cast<double>(carried[i]), static_cast<int>(i * kDigitBits) - 1074);
    }
    return sum;
  }

 private:
  static constexpr std::uint64_t kDigitBits = 32;
  static constexpr std::uint64_t kDigit = 0xFFFFFFFFu;
  static constexpr std::size_t kDigits = 68;  // up to the largest double, and 2^31 times it

  std::array<std::uint64_t, kDigits> digits_{};
};

}  // namespace eqt
