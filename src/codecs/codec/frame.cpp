// SPDX-License-Identifier: Apache-2.0
#include "codec/frame.hpp"

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::uint32_t kMagic = 0x31545145;  // "EQT1" in memory

void require_equal(const char* field, std::uint64_t expected, std::uint64_t found) {
  if (expected != found) {
    fail(Kind::wire,
         "message header: expected {} {}, found {}; the ranks run different configs or "
         "are out of step",
         field, expected, found);
  }
}

}  // namespace

void write_header(const WireHeader& header, std::span<std::byte> frame) {
  EQT_CHECK(frame.size() >= kFrameHeaderBytes, "a frame of {} bytes", frame.size());
  std::byte* at = frame.data();
  store(at + 0, kMagic);
  store(at + 4, static_cast<std::uint16_t>(header.codec));
  store(at + 6, header.format_version);
  store(at + 7, header.flags);
  store(at + 8, header.step);
  store(at + 16, header.count);
  store(at + 24, header.index);
  store(at + 28, header.payload_bytes);
}

std::span<const std::byte> open_frame(std::span<const std::byte> frame,
                                      const WireHeader& expected) {
  if (frame.size() < kFrameHeaderBytes) {
    fail(Kind::wire, "message header: expected {} bytes, found {}", kFrameHeaderBytes,
         frame.size());
  }
  const std::byte* at = frame.data();
  require_equal("magic", kMagic, load<std::uint32_t>(at + 0));
  require_equal("codec", static_cast<std::uint16_t>(expected.codec), load<std::uint16_t>(at + 4));
  require_equal("format version", expected.format_version, load<std::uint8_t>(at + 6));
  require_equal("flags", expected.flags, load<std::uint8_t>(at + 7));
  require_equal("step", expected.step, load<std::uint64_t>(at + 8));
  require_equal("value count", expected.count, load<std::uint64_t>(at + 16));
  // Messages to users keep the name that the field has had in them.
  require_equal("slice", expected.index, load<std::uint32_t>(at + 24));
  require_equal("payload bytes", frame.size() - kFrameHeaderBytes, load<std::uint32_t>(at + 28));
  return frame.subspan(kFrameHeaderBytes);
}

}  // namespace eqt::codec
