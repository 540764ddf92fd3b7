// SPDX-License-Identifier: Apache-2.0
// The sum behind a dense mean.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::collective {

/// The mean of more values in all is written past the caches: values that were just sent are still
/// in the receivers' caches, and fetching each line from there before writing it would cost more
/// than the sum. Fewer values stay in the own caches, whole.
inline constexpr std::size_t kMostCachedValues = std::size_t{1} << 20;

/// mean[i] = share * (rows[0][i] + rows[1][i] + ...), added in that order, with the same bits on
/// every instruction set.
/// @param all values of all means that are computed one after the other, this one included
/// @pre every row has mean.size() values; `mean` is one of them or overlaps none
void mean_of_rows(std::span<const float* const> rows, float share, std::span<float> mean,
                  std::size_t all);

}  // namespace eqt::collective
