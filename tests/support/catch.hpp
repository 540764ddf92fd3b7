// SPDX-License-Identifier: Apache-2.0
// Catch2 v2 or v3, whichever the system has.

#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace Catch::Matchers {
/// Version 3's name for it.
inline auto ContainsSubstring(const std::string& text,
                              CaseSensitive::Choice letters = CaseSensitive::Yes) {
  return Contains(text, letters);
}
}  // namespace Catch::Matchers
#endif
