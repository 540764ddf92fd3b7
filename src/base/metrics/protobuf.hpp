// SPDX-License-Identifier: Apache-2.0
// The few wire types of protocol buffers that events need, written by hand.
//
// Source   Protocol Buffers, "Encoding": a field is its number and wire type as a varint, then its
//          value: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes; little-endian

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace eqt::metrics {

/// One message; fields appear in the order of the calls.
class ProtoMessage {
 public:
  ProtoMessage& varint(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    append_varint(value);
    return *this;
  }
  ProtoMessage& real(std::uint32_t field, double value) {
    key(field, 1);
    append_little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real32(std::uint32_t field, float value) {
    key(field, 5);
    append_little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtoMessage& bytes(std::uint32_t field, std::string_view value) {
    key(field, 2);
    append_varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) {
    return bytes(field, value.bytes_);
  }
  /// A packed repeated double.
  ProtoMessage& reals(std::uint32_t field, std::span<const double> values) {
    key(field, 2);
    append_varint(values.size() * sizeof(double));
    for (const double value : values) append_little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }

  const std::string& str() const noexcept { return bytes_; }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) { append_varint(field << 3 | wire_type); }

  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80u | (value & 0x7Fu));
    bytes_ += static_cast<char>(value);
  }

  template <typename Unsigned>
  void append_little_endian(Unsigned value) {
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
      bytes_ += static_cast<char>(value >> (8 * i) & 0xFFu);
    }
  }

  std::string bytes_;
};

}  // namespace eqt::metrics
