// Exact selection of the k values of largest magnitude.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/workspace.hpp"

namespace eqt::codec {

/// Indices of the k values of largest magnitude, ascending; among equal magnitudes the lowest
/// indices. Valid until the workspace's slot 0 is used again. Empty if a value is NaN or infinite.
/// @pre 1 <= k <= values.size() < 2^32
std::span<const std::uint32_t> largest_magnitudes(std::span<const float> values, std::size_t k,
                                                  Workspace& workspace);

}  // namespace eqt::codec
