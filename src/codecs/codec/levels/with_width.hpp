// SPDX-License-Identifier: Apache-2.0
// Code for each width of a level's index. It includes nothing of ours: devices compile it, too.

#pragma once

#include <type_traits>

namespace eqt::codec {

/// Calls visit(std::integral_constant<int, bits>). @pre bits is 2 ... 8
template <typename Visit>
void with_width(int bits, const Visit& visit) {
  switch (bits) {
    case 2:
      return visit(std::integral_constant<int, 2>());
    case 3:
      return visit(std::integral_constant<int, 3>());
    case 4:
      return visit(std::integral_constant<int, 4>());
    case 5:
      return visit(std::integral_constant<int, 5>());
    case 6:
      return visit(std::integral_constant<int, 6>());
    case 7:
      return visit(std::integral_constant<int, 7>());
    default:
      return visit(std::integral_constant<int, 8>());
  }
}

}  // namespace eqt::codec
