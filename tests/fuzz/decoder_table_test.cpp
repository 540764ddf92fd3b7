// SPDX-License-Identifier: Apache-2.0
// The check of hostile bytes detects wrong decoders.

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/hostile_bytes.hpp"

namespace {

using namespace eqt;

/// A decoder with errors that the payload's first byte chooses.
class MisbehavingCodec final : public codec::Compressor {
 public:
  codec::CodecId id() const noexcept override { return codec::CodecId::none; }
  std::uint8_t format_version() const noexcept override { return 1; }
  codec::Properties properties() const noexcept override { return {}; }
  std::size_t max_payload_bytes(std::size_t) const override { return 1; }
  std::size_t encode(std::span<const float>, const codec::EncodeContext&, Workspace&,
                     std::span<std::byte>) const override {
    return 1;
  }
  void decode_add(std::span<const std::byte> payload, float, Workspace&,
                  std::span<float> sum) const override {
    switch (std::to_integer<char>(payload[0])) {
      case 'w':
        fail(Kind::wire, "refused");
      case 'b':
        fail(Kind::bug, "a check failed");
      case 'x':
        throw std::length_error("vector");
      case 'i':
        sum[0] = std::numeric_limits<float>::infinity();
        return;
      case 'r':
        sum[0] = static_cast<float>(++calls_);
        return;
      default:
        return;
    }
  }

 private:
  mutable int calls_ = 0;
};

}  // namespace

TEST_CASE("the check of hostile bytes detects wrong decoders", "[fuzz]") {
  using test::DecodeResult;
  test::Decoder decoder{"misbehaving", std::make_unique<MisbehavingCodec>(), true};
  Workspace workspace;
  const auto result = [&](char what) {
    const auto byte = static_cast<std::byte>(what);
    return test::try_payload(decoder, {&byte, 1}, 3, workspace).result;
  };
  CHECK(result('d') == DecodeResult::decoded);
  CHECK(result('w') == DecodeResult::refused);
  CHECK(result('b') == DecodeResult::broken);
  CHECK(result('x') == DecodeResult::broken);
  CHECK(result('i') == DecodeResult::broken);
  CHECK(result('r') == DecodeResult::broken);
  decoder.finite = false;
  CHECK(result('i') == DecodeResult::decoded);
}

TEST_CASE("the table's names are different", "[fuzz]") {
  std::vector<std::string> names;
  for (const auto& decoder : eqt::test::decoder_table(64)) names.push_back(decoder.name);
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}
