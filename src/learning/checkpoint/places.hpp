// SPDX-License-Identifier: Apache-2.0
// Lists of ranges as bytes: the values for which a rank is responsible.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/saved_state.hpp"

namespace eqt::checkpoint {

/// Per range three varints (7 bits per byte, lowest first): the change of the slice and the gap to
/// the end of the range before, both with their sign in the lowest bit, then the count.
std::vector<std::byte> write_places(std::span<const SliceRange> ranges);

/// @throws Error{data} unless these are ranges of `values` values in total
std::vector<SliceRange> read_places(std::span<const std::byte> bytes, std::size_t values,
                                    std::string_view origin);

}  // namespace eqt::checkpoint
