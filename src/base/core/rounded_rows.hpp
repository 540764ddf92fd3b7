// SPDX-License-Identifier: Apache-2.0
// A matrix of 8-bit integers with a scale for each row, as networks with 8-bit operands round their
// weights; and who rounds them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace eqt {

/// value = scale of the row * integer in [-127, 127].
struct RoundedRows {
  std::span<const std::int8_t> values;  // (rows, columns), row-major
  std::span<const float> scales;        // (rows)
};

/// A network that computes with 8-bit weights.
class WeightRounding {
 public:
  virtual ~WeightRounding() = default;
  /// Rounds these values in place of a slice's parameters: training passes compute with the result
  /// until release().
  /// @param slice   its index in the layout
  /// @param values  (count of the slice)
  /// @return valid until the slice is rounded again; empty if the network does not round this slice
  /// @throws Error{diverged} naming the layer if a value is NaN or infinite
  virtual std::optional<RoundedRows> round(std::size_t slice, std::span<const float> values) = 0;
  /// From now on passes round the parameters themselves.
  virtual void release() = 0;
};

}  // namespace eqt
