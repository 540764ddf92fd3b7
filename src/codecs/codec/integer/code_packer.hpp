// SPDX-License-Identifier: Apache-2.0
// Collects quantised codes and packs them. Private to integer_message.cpp.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/integer/integer_kernels.hpp"

namespace eqt::codec {

/// Codes that are processed at a time, so that they stay in the first-level cache; whole blocks of
/// planes.
inline constexpr std::size_t kCodeBlock = 4096;
static_assert(kCodeBlock % kPlaneCodes == 0);

/// A buffer of codes that are not packed yet: parts of buckets need not end where blocks of planes
/// do.
class CodePacker {
 public:
  CodePacker(std::uint32_t limit, std::span<std::byte> to) : limit_(limit), to_(to) {}

  /// Room for the next `count` <= kCodeBlock codes.
  std::span<std::int8_t> next(std::size_t count) {
    if (filled_ + count > sizeof codes_) pack_whole_blocks();
    filled_ += count;
    return std::span(codes_).subspan(filled_ - count, count);
  }

  void finish() { pack(filled_); }

 private:
  void pack_whole_blocks() {
    const std::size_t whole = filled_ - filled_ % kPlaneCodes;
    pack(whole);
    std::copy(codes_ + whole, codes_ + filled_, codes_);
    filled_ -= whole;
  }

  void pack(std::size_t count) {
    const std::size_t bytes = packed_bytes(count, code_width(limit_));
    pack_codes({codes_, count}, limit_, to_.first(bytes));
    to_ = to_.subspan(bytes);
  }

  const std::uint32_t limit_;
  std::span<std::byte> to_;
  std::size_t filled_ = 0;
  alignas(64) std::int8_t codes_[kCodeBlock + kPlaneCodes];
};

}  // namespace eqt::codec
