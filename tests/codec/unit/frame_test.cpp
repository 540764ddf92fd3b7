// SPDX-License-Identifier: Apache-2.0
#include "codec/frame.hpp"

#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

const WireHeader kHeader = {.codec = CodecId::terngrad,
                            .format_version = 1,
                            .flags = 0,
                            .step = 0x0102030405060708,
                            .count = 0x1112131415161718,
                            .index = 0x21222324,
                            .payload_bytes = 3};

Bytes make_frame() {
  Bytes frame(kFrameHeaderBytes + 3);
  write_header(kHeader, frame);
  for (std::size_t i = 0; i < 3; ++i)
    frame[kFrameHeaderBytes + i] = static_cast<std::byte>(0xA0 + i);
  return frame;
}

}  // namespace

TEST_CASE("the header's bytes are at the positions of FORMAT.md", "[frame]") {
  const unsigned char expected[] = {
      'E',  'Q',  'T',  '1',  7,    0,    1,    0,    8,    7,    6,    5,    4, 3, 2, 1,
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 3, 0, 0, 0};
  const Bytes frame = make_frame();
  REQUIRE(std::memcmp(frame.data(), expected, sizeof(expected)) == 0);
}

TEST_CASE("an intact frame opens to its payload", "[frame]") {
  const Bytes frame = make_frame();
  const auto payload = open_frame(frame, kHeader);
  REQUIRE(payload.data() == frame.data() + kFrameHeaderBytes);
  REQUIRE(payload.size() == 3);
}

TEST_CASE("every flipped bit of the header is rejected, and the error names the field", "[frame]") {
  struct Field {
    const char* name;
    std::size_t first, end;
  };
  for (const Field& field :
       {Field{"magic", 0, 4}, Field{"codec", 4, 6}, Field{"format version", 6, 7},
        Field{"flags", 7, 8}, Field{"step", 8, 16}, Field{"value count", 16, 24},
        Field{"slice", 24, 28}, Field{"payload bytes", 28, 32}}) {
    for (std::size_t bit = 8 * field.first; bit < 8 * field.end; ++bit) {
      Bytes frame = make_frame();
      frame[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      const std::string message = refusal(Kind::wire, [&] { open_frame(frame, kHeader); });
      INFO(message);
      REQUIRE(contains(message, std::string("expected ") + field.name + " "));
    }
  }
}

TEST_CASE("every truncation and an extension of a frame are rejected", "[frame]") {
  const Bytes frame = make_frame();
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
    refusal(Kind::wire, [&] { open_frame(cut, kHeader); });
  }
  Bytes longer = frame;
  longer.push_back(std::byte{0});
  REQUIRE(contains(refusal(Kind::wire, [&] { open_frame(longer, kHeader); }), "payload bytes"));
}

TEST_CASE("a header is never written outside a short buffer", "[frame]") {
  Bytes frame(kFrameHeaderBytes - 1);
  refusal(Kind::bug, [&] { write_header(kHeader, frame); });
}
