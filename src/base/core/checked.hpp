// SPDX-License-Identifier: Apache-2.0
// Multiplies sizes that were read from files.

#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.hpp"

namespace eqt {

/// The product of `factors`. @param what names it in the error message
/// @throws Error{kind} if the product is too large for its type
template <std::unsigned_integral T>
T checked_product(std::initializer_list<T> factors, Kind kind, std::string_view what) {
  T product = 1;
  for (const T factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      fail(kind, "expected a number of {} that fits {} bits, found more: {}", what, 8 * sizeof(T),
           fmt::join(factors, " x "));
    }
  }
  return product;
}

}  // namespace eqt
