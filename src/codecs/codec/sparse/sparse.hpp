// SPDX-License-Identifier: Apache-2.0
// Operations on sparse payloads (top-k, DGC, threshold) for other rooms.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::codec {

/// values[i] = 0 for each index i in a payload of values.size() values: DGC's momentum factor
/// masking.
/// @throws Error{wire} on a malformed payload
void zero_sent(std::span<const std::byte> payload, std::span<float> values);

}  // namespace eqt::codec
