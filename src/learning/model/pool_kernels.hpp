// SPDX-License-Identifier: Apache-2.0
// Vector kernels of the maximum over windows of 2 x 2 pixels, and its gradient. No torch.
//
// Shapes   a row of pixels is (width, channels) row-major, as in channels-last images; a last
//          column that fills no window is in none
// Numbers  of equal values the first counts, by row; what is not a number counts as the largest,
//          so that divergence stays visible

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::model {

/// The maxima of two neighbouring rows.
/// @param out  (width / 2, channels)
/// @param which  of out's shape: the place of the maximum in its window, 0 to 3, by row
void max_pool_rows(std::span<const float> upper, std::span<const float> lower, std::size_t channels,
                   std::span<float> out, std::span<std::uint8_t> which);

/// The gradient of both rows from that of their maxima.
/// @param g  (width / 2, channels)
void max_pool_gradient(std::span<const float> g, std::span<const std::uint8_t> which,
                       std::size_t channels, std::span<float> upper, std::span<float> lower);

}  // namespace eqt::model
