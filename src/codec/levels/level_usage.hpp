// How often a level codec uses each of its levels.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// l_0 = 0 < ... < l_n = 1 as the codec computes with them; empty: it has no levels.
std::vector<float> levels_of(const Compressor& compressor);

/// Counts the codes of encoded values, whatever the coding: what was decoded is compared with the
/// levels of its bucket.
class LevelUsage {
 public:
  /// @pre !levels_of(compressor).empty(); the compressor outlives this and keeps its levels
  explicit LevelUsage(const Compressor& compressor);

  /// Encodes `values` as `context` says. Buckets whose norm is no finite number have no codes.
  /// @throws Error{diverged} as encode()
  void add(std::span<const float> values, EncodeContext context);

  /// By code from -n to n: 2n + 1 counts.
  std::span<const std::uint64_t> counts() const noexcept { return counts_; }

 private:
  void add_bucket(std::span<const float> bucket, const EncodeContext& context);

  const Compressor& compressor_;
  std::vector<float> levels_;
  std::size_t bucket_size_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::byte> payload_;
  std::vector<float> decoded_, values_;  // of a bucket; of its levels
  Workspace workspace_;
};

}  // namespace eqt::codec
