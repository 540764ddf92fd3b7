// SPDX-License-Identifier: Apache-2.0
// How often a level codec uses each of its levels.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/levels/level_codec.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// Counts the codes of values, without encoding them to bytes.
class LevelUsage {
 public:
  /// Null if the compressor has no levels.
  /// @param compressor must outlive the result
  static std::unique_ptr<LevelUsage> of(const Compressor& compressor);

  /// See LevelRounding::count_codes().
  void add(std::span<const float> values, const EncodeContext& context);

  /// 2n + 1 counts, by code from -n to n.
  std::vector<std::uint64_t> counts() const;

 private:
  explicit LevelUsage(const LevelRounding& rounding)
      : rounding_(rounding), levels_(rounding.levels().size() - 1) {}

  const LevelRounding& rounding_;
  std::size_t levels_;  // n, without 0
  std::array<std::uint64_t, 256> counts_{};
  Workspace workspace_;
};

}  // namespace eqt::codec
