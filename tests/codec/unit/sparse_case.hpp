// SPDX-License-Identifier: Apache-2.0
// Reads the head of a sparse payload by FORMAT.md alone, for tests of the sparse codecs.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::codec::testing {

struct SparseHead {
  std::size_t k = 0;
  std::size_t bytes = 0;  // of the whole head
  int value_bits = 0;
};

/// @pre the payload is not empty
inline SparseHead head_of(std::span<const std::byte> payload) {
  SparseHead head;
  std::size_t at = 0;
  do {
    head.k |= (std::to_integer<std::size_t>(payload[at]) & 0x7F) << (7 * at);
  } while (std::to_integer<int>(payload[at++]) >= 0x80);
  head.value_bits = std::to_integer<int>(payload[at + 1]) & 0x3F;
  head.bytes = at + 2;
  return head;
}

}  // namespace eqt::codec::testing
