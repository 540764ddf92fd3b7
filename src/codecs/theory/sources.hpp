// SPDX-License-Identifier: Apache-2.0
// Vectors to quantise, drawn from named distributions: a pure function of (name, count, seed).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace eqt::theory {

/// A distribution: its name, and one line about it.
struct Source {
  std::string_view name;
  std::string_view about;
};

std::span<const Source> sources();

/// `count` values. Sources have different scales, which do not affect relative variances and code
/// lengths.
/// @throws Error{bug} for a name that is not in sources()
std::vector<float> draw(std::string_view source, std::size_t count, std::uint64_t seed);

}  // namespace eqt::theory
