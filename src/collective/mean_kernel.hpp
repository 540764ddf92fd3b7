// SPDX-License-Identifier: Apache-2.0
// The sum behind a dense mean.

#pragma once

#include <span>

namespace eqt::collective {

/// mean[i] = share * (rows[0][i] + rows[1][i] + ...), added in that order, with the same bits on
/// every instruction set. It writes past the caches: what was just sent is in the receivers'
/// caches, too, and fetching every line from them before writing to it would cost more than the sum
/// itself.
/// @pre every row has mean.size() values; `mean` is one of them or overlaps none
void mean_of_rows(std::span<const float* const> rows, float share, std::span<float> mean);

}  // namespace eqt::collective
