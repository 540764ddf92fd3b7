// The sum behind a dense mean.

#pragma once

#include <span>

namespace eqt::collective {

/// mean[i] = share * (rows[0][i] + rows[1][i] + ...), added in that order, the same bits on every
/// instruction set. Writes past the caches: what was just sent is in the receivers' caches too, and
/// asking them for every line before writing to it costs more than the sum itself.
/// @pre every row has mean.size() values; `mean` is one of them or apart from all
void mean_of_rows(std::span<const float* const> rows, float share, std::span<float> mean);

}  // namespace eqt::collective
