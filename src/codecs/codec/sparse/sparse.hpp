// SPDX-License-Identifier: Apache-2.0
// The payload of top-k, DGC and threshold: k values and their indices.
//
// Symbols  n values, k of them sent; the coded set: their indices if 2 k <= n, else those of the
//          others; m its size; b Rice parameter
// Payload  k, seven bits a byte, the lowest first, bit 7 set in all bytes but the last; b u8; form
//          of the values u8; remainders of the m gaps; the k values in the order of their indices;
//          quotients of the m gaps. See gap_coding.hpp and value_coding.hpp
// Size     3 bytes for k < 128, 4 for k < 16384, up to 7; ceil(m b / 8); those of the values;
//          ceil((m + sum of quotients) / 8)

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/sparse/gap_coding.hpp"
#include "codec/sparse/largest.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// Bytes before the coded indices: k, the Rice parameter and the form of the values.
std::size_t sparse_head_bytes(std::size_t k);

/// Upper bound for any k [bytes].
std::size_t max_sparse_bytes(std::size_t count, int value_bits);

/// @return bytes written
/// @pre to has room for max_sparse_bytes(count, coding.bits); the selection is in
/// kSelectedIndices and kSelectedValues (scratch.hpp), and its values are finite
std::size_t write_sparse(const Selection& selection, std::size_t count, const ValueCoding& coding,
                         Workspace& workspace, std::byte* to);

/// A payload that has been checked except for the indices.
struct SparsePayload {
  std::size_t count = 0;  // values that were encoded
  std::size_t k = 0;
  bool absent = false;  // gaps are those of the indices that are not sent
  GapStreams gaps;
  ValueForm form;
  std::span<const std::byte> values;
};

/// @throws Error{wire}
SparsePayload open_sparse(std::span<const std::byte> payload, std::size_t count);

/// Calls take(index, entry) for entries 0 ... k - 1, whose indices ascend and are below the count.
/// @throws Error{wire} at the first index that is too large
template <typename Take>
void for_each_entry(const SparsePayload& payload, Take take) {
  std::size_t entry = 0;
  if (!payload.absent) {
    for_each_index(payload.gaps, [&](std::size_t index) { take(index, entry++); });
    return;
  }
  std::size_t next = 0;
  for_each_index(payload.gaps, [&](std::size_t index) {
    for (; next < index; ++next) take(next, entry++);
    next = index + 1;
  });
  for (; next < payload.count; ++next) take(next, entry++);
}

/// values[i] = 0 for each index i in a payload of values.size() values: DGC's momentum factor
/// masking.
/// @throws Error{wire} on a malformed payload
void zero_sent(std::span<const std::byte> payload, std::span<float> values);

}  // namespace eqt::codec
