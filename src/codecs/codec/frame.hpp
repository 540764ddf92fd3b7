// SPDX-License-Identifier: Apache-2.0
// The frame around every message: a 32-byte little-endian header that identifies it. FORMAT.md has
// the layout and the rules.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/compressor.hpp"

namespace eqt::codec {

inline constexpr std::size_t kFrameHeaderBytes = 32;

/// Flags: the sender has chosen to send nothing, and no payload follows; or some segments of a
/// message, and the payload begins with a list of them.
inline constexpr std::uint8_t kNothingSent = 1, kSomeSegments = 2;

struct WireHeader {
  CodecId codec = CodecId::none;
  std::uint8_t format_version = 0;
  std::uint8_t flags = 0;  // 0, or one of the above
  StepId step = 0;
  std::uint64_t count = 0;          // values in the message
  std::uint32_t index = 0;          // of the message in the step
  std::uint32_t payload_bytes = 0;  // bytes that follow the header
};

/// Writes the header field by field into the first 32 bytes of `frame`.
/// @pre frame.size() >= kFrameHeaderBytes
void write_header(const WireHeader& header, std::span<std::byte> frame);

/// Checks a received frame field by field and returns its payload. `expected.payload_bytes` is not
/// compared with the header: the payload must fill the frame exactly.
/// @throws Error{wire} that names the first field that differs, and both values.
std::span<const std::byte> open_frame(std::span<const std::byte> frame, const WireHeader& expected);

}  // namespace eqt::codec
