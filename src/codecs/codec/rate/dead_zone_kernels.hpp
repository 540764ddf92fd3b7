// SPDX-License-Identifier: Apache-2.0
// The passes of a dead-zone quantizer over its values. Compiled once per instruction set and chosen
// at run time; the bits are the same on each: fp32 operations in a stated order, never fused.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// codes[i] = min(trunc(|v| inverse + offset), escape), with the sign bit of v if that is above 0.
/// @pre |v| inverse is finite; 0 <= offset < 1; codes.size() == values.size()
void quantize_dead_zone(std::span<const float> values, float inverse, float offset,
                        std::uint32_t escape, std::span<LevelCode> codes);

/// residual[i] += gradient[i].
/// @return the largest magnitude of the result, as the bits of a float
std::uint32_t compensate(std::span<const float> gradient, std::span<float> residual);

}  // namespace eqt::codec
