// SPDX-License-Identifier: Apache-2.0
// Facts about a sparse payload (top-k, DGC, threshold) for other rooms.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::codec {

/// values[i] = 0 for each index i that the payload of values.size() values carries: DGC's momentum
/// factor masking, u and v where they were sent.
/// @throws Error{wire} on a malformed payload
void zero_sent(std::span<const std::byte> payload, std::span<float> values);

}  // namespace eqt::codec
