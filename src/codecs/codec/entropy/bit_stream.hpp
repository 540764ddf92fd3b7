// SPDX-License-Identifier: Apache-2.0
// Writes and reads streams of bits, most significant bit first, through 64-bit windows.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::codec {

namespace detail {
inline std::uint64_t swap_bytes(std::uint64_t x) noexcept { return __builtin_bswap64(x); }
}  // namespace detail

/// Appends words of bits to a byte buffer. append() only collects: call flush() before more than 57
/// bits are pending.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()) {}

  /// @pre bits < 2^length; at most 7 bits are pending beyond 57 since the last flush()
  void append(std::uint64_t bits, int length) noexcept {
    pending_ = pending_ << length | bits;
    count_ += length;
  }

  /// Moves whole bytes out; at most 7 bits stay pending.
  /// @throws Error{bug} if the buffer is full
  void flush() {
    if (count_ == 0) return;
    const std::uint64_t aligned = detail::swap_bytes(pending_ << (64 - count_));
    const std::ptrdiff_t whole = count_ / 8;
    if (end_ - at_ >= 8) [[likely]] {
      store(at_, aligned);
    } else {
      EQT_CHECK(end_ - at_ >= whole, "{} bytes of a bit stream, room for {}", whole, end_ - at_);
      std::memcpy(at_, &aligned, static_cast<std::size_t>(whole));
    }
    at_ += whole;
    count_ &= 7;
  }

  void put(std::uint64_t bits, int length) {
    append(bits, length);
    flush();
  }

  /// Pads with zeros to a whole byte.
  /// @return bytes written
  std::size_t finish() {
    if (count_ % 8 != 0) append(0, 8 - count_ % 8);
    flush();
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  std::byte* begin_;
  std::byte* at_;
  std::byte* end_;
  std::uint64_t pending_ = 0;  // its low count_ bits are not written yet
  int count_ = 0;
};

/// Reads bits of a byte buffer. Beyond the end it reads zeros; overrun() then returns true.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The next bits, most significant first; at least 57 of them are valid.
  std::uint64_t window() const noexcept {
    const std::size_t byte = position_ / 8;
    std::uint64_t word = 0;
    if (byte + 8 <= bytes_.size()) [[likely]] {
      word = load<std::uint64_t>(bytes_.data() + byte);
    } else if (byte < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
    }
    return detail::swap_bytes(word) << (position_ % 8);
  }

  void skip(int length) noexcept { position_ += static_cast<std::size_t>(length); }

  /// @pre 1 <= length <= 57
  std::uint64_t take(int length) noexcept {
    const std::uint64_t bits = window() >> (64 - length);
    skip(length);
    return bits;
  }

  std::size_t position() const noexcept { return position_; }  // [bits]
  bool overrun() const noexcept { return position_ > bytes_.size() * 8; }

  /// The number of bytes used, after checking that the stream has not ended before and that the
  /// padding is zero.
  /// @throws Error{wire}
  std::size_t finish() {
    const int padding = static_cast<int>((8 - position_ % 8) % 8);
    if (overrun()) {
      fail(Kind::wire, "level payload: expected {} more bits, found the end of its {} bytes",
           position_ - bytes_.size() * 8, bytes_.size());
    }
    if (padding != 0 && take(padding) != 0) {
      fail(Kind::wire,
           "level payload: expected zero bits up to the byte's end, found ones at bit {}",
           position_ - static_cast<std::size_t>(padding));
    }
    return position_ / 8;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;  // [bits]
};

}  // namespace eqt::codec
