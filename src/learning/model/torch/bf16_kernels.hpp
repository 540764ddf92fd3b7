// SPDX-License-Identifier: Apache-2.0
// Vector kernels that convert between bf16 and float32. No torch.
//
// A bf16 value is the upper half of a float32: 8 exponent bits, 8 significant bits.
// Numbers  to nearest, ties to even; what is not a number stays so; the same on every processor

#pragma once

#include <cstdint>
#include <span>

namespace eqt::model {

/// Exact. @pre to.size() == from.size()
void widen_bf16(std::span<const std::uint16_t> from, std::span<float> to);

/// @pre to.size() == from.size()
void narrow_to_bf16(std::span<const float> from, std::span<std::uint16_t> to);

}  // namespace eqt::model
