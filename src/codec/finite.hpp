// Which values of a buffer are numbers: the check in front of every codec.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace eqt::codec {

/// Index of the first value that is NaN or infinite; values.size() if there is none.
std::size_t first_non_finite(std::span<const float> values);

/// @throws Error{diverged} that names `compressor`, the first value that is NaN or infinite and its
/// index.
void require_finite(std::string_view compressor, std::span<const float> values);

}  // namespace eqt::codec
