// SPDX-License-Identifier: Apache-2.0
// The sums over rows and columns of a resized picture, for every instruction set. No multiply-add
// is fused, so all of them give the same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/pictures/resize.hpp"

namespace eqt::data {

/// line[x] = the sum over k of weights[k] rows[k stride + x].
void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> line);

/// The weighted columns of a line (columns, 3) as bytes: output i goes to out + i step. Reads one
/// float beyond the line.
void add_columns3(const float* line, const Taps& taps, std::ptrdiff_t step, std::uint8_t* out);

}  // namespace eqt::data
