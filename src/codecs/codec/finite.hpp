// SPDX-License-Identifier: Apache-2.0
// Finds NaN and infinity in a buffer. Every codec does that before it encodes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace eqt::codec {

/// The bits of the largest float. A magnitude is not finite exactly if its bits are above this.
inline constexpr std::int32_t kLargestFiniteBits = 0x7F7FFFFF;

/// Index of the first value that is NaN or infinite; values.size() if there is none.
std::size_t first_non_finite(std::span<const float> values);

/// @throws Error{diverged} that names `compressor`, the first value that is NaN or infinite and its
/// index.
void require_finite(std::string_view compressor, std::span<const float> values);

}  // namespace eqt::codec
