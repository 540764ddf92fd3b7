// SPDX-License-Identifier: Apache-2.0
// A level codec for theory: a table, a bucket size, a norm. All theory is per bucket.

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "codec/compressor.hpp"
#include "codec/levels/levels.hpp"
#include "codec/options.hpp"

namespace eqt::theory {

struct LevelScheme {
  codec::Levels levels;         // l_0 = 0 < ... < l_n = 1
  std::size_t bucket_size = 1;  // d [values]
  codec::Norm norm = codec::Norm::l2;

  /// n, nonzero levels.
  int count() const { return static_cast<int>(levels.size()) - 1; }
  /// Bits of a fixed code: the sign and an index up to n.
  int fixed_bits() const;
};

/// The codec's levels, rounded to float32, as doubles. Empty for codecs without a table.
std::optional<codec::Levels> levels_of(const codec::Compressor& compressor);

/// Calls visit(bucket) for the consecutive buckets of d values; the last one may be shorter.
template <typename Visit>
void each_bucket(std::span<const float> values, std::size_t d, const Visit& visit) {
  for (std::size_t start = 0; start < values.size(); start += d)
    visit(values.subspan(start, std::min(d, values.size() - start)));
}

}  // namespace eqt::theory
