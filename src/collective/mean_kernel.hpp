// SPDX-License-Identifier: Apache-2.0
// The sum behind a dense mean.

#pragma once

#include <span>

namespace eqt::collective {

/// mean[i] = share * (rows[0][i] + rows[1][i] + ...), added in that order, with the same bits on
/// every instruction set. It writes past the caches, because values that were just sent are still
/// in the receivers' caches, and fetching each line from there before writing it would cost more
/// than the sum.
/// @pre every row has mean.size() values; `mean` is one of them or overlaps none
void mean_of_rows(std::span<const float* const> rows, float share, std::span<float> mean);

}  // namespace eqt::collective
