// SPDX-License-Identifier: Apache-2.0
// The table of positions of a vision transformer, for pictures of another size. No torch.
//
// Source   A. Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, section 3.2; R. Keys, IEEE ASSP 29,
//          1981, eq. (15) with a = -1/2, widened where a table shrinks, as Pillow, PyTorch and timm
//          resample pictures

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/architecture.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {

/// Resamples rows (rows, columns, width) to those of another grid.
std::vector<float> resample_grid(std::span<const float> values, std::size_t rows,
                                 std::size_t columns, std::size_t width, std::size_t to_rows,
                                 std::size_t to_columns);

/// Returns true for tables of positions of the network's width with a square grid, of any size.
/// @param sizes  of the tensor in a file
bool is_position_table(const VitPlan& plan, std::string_view name,
                       std::span<const std::int64_t> sizes);

/// Returns the table of positions that a network needs, from one of a square grid of other size;
/// the class token's row stays. Nothing where is_position_table() is false.
/// @param sizes  of the tensor in a file
std::optional<std::vector<float>> resized_positions(const VitPlan& plan, std::string_view name,
                                                    std::span<const std::int64_t> sizes,
                                                    std::span<const float> values);

/// Files may have tables of positions for pictures of other sizes.
weights::FileNames file_names_of(const VitPlan& plan);

}  // namespace eqt::model
