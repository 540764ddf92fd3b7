// SPDX-License-Identifier: Apache-2.0
// The level table of a codec in device memory. Private to this room.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/level_codec.hpp"
#include "device/jobs.hpp"
#include "device/queue.hpp"

namespace eqt::device {

struct DeviceLevels {
  static constexpr std::size_t kNormBytes = sizeof(float);

  DeviceLevels(const codec::LevelCodec& codec, Queue& queue)
      : options(codec.options()),
        level(queue, std::span<const float>(codec.table().level)),
        offset(queue, lines_of(codec.table(), codec.table().offset)),
        slope(queue, lines_of(codec.table(), codec.table().slope)),
        threshold(queue, thresholds_of(codec.table())) {
    const codec::LevelTable& table = codec.table();
    grid.kind = table.uniform  ? LevelGrid::Kind::uniform
                : table.powers ? LevelGrid::Kind::powers
                : threshold.size() <= 16 && table.bits <= kMostFewKeysBits
                    ? LevelGrid::Kind::few_keys
                    : LevelGrid::Kind::many_keys;
    grid.bits = table.bits;
    grid.count = table.count;
    grid.level = level.data();
    grid.offset = offset.data();
    grid.slope = slope.data();
    grid.threshold = threshold.data();
    grid.shift = table.shift;
    grid.first_key = table.first_key;
    grid.keys = static_cast<std::uint32_t>(threshold.size());
    slot_bytes = kNormBytes + codec::fixed_bytes(options.bucket_size, options.bits);
  }

  std::size_t coded(std::size_t count) const { return codec::fixed_bytes(count, options.bits); }
  std::size_t in_bucket(std::size_t bucket, std::size_t count) const {
    return std::min(options.bucket_size, count - bucket * options.bucket_size);
  }
  std::size_t buckets(std::size_t count) const {
    return count / options.bucket_size + (count % options.bucket_size != 0);
  }

  codec::LevelCodecOptions options;
  Array<float> level;
  Array<float> offset, slope;
  Array<float> threshold;
  LevelGrid grid = {};
  std::size_t slot_bytes = 0;

 private:
  /// `of_cell` for the cells below and above each key's level; the last key twice, because |v| /
  /// norm may be rounded to just above 1.
  static std::vector<float> lines_of(const codec::LevelTable& table,
                                     std::span<const float> of_cell) {
    const float scale = std::ldexp(1.0f, 32 - table.bits);
    std::vector<float> lines;
    for (std::size_t k = 0; k <= table.base.size(); ++k) {
      const auto below =
          static_cast<std::size_t>(k < table.base.size() ? table.base[k] : table.base.back());
      lines.push_back(of_cell[below] * scale);
      lines.push_back(of_cell[below + 1] * scale);
    }
    return lines;
  }
  static std::vector<float> thresholds_of(const codec::LevelTable& table) {
    std::vector<float> thresholds = table.threshold;
    thresholds.push_back(thresholds.back());
    return thresholds;
  }
};

}  // namespace eqt::device
