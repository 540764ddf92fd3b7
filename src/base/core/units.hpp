// SPDX-License-Identifier: Apache-2.0
// Units of memory.

#pragma once

#include <cstdint>

namespace eqt {

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;  // [bytes]

}  // namespace eqt
