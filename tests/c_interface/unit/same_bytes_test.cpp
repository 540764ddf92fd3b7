// SPDX-License-Identifier: Apache-2.0
// The C interface beside the program's own codecs: the same bytes, the same decoded bits.

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codec/golden/frozen_payloads.hpp"
#include "codec/message.hpp"
#include "equant/codec.h"
#include "support/catch.hpp"
#include "support/compressors.hpp"
#include "support/decoder_table.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

constexpr std::uint64_t kSeed = 42;
constexpr std::size_t kFrameBytes = 32 + 4;  // FORMAT.md: header, length of the segment

/// A codec that is destroyed in the end.
class Codec {
 public:
  Codec(const std::string& name, const std::string& options) {
    char error[512] = "";
    const int status =
        equant_codec_create(name.c_str(), options.c_str(), kSeed, &codec_, error, sizeof error);
    INFO(error);
    REQUIRE(status == EQUANT_CODEC_OK);
  }
  ~Codec() { equant_codec_destroy(codec_); }
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  std::vector<std::byte> encoded(const equant_array& array, const std::vector<float>& values,
                                 float* residual = nullptr) {
    std::size_t most = 0, written = 0;
    REQUIRE(equant_codec_max_bytes(codec_, values.size(), &most) == EQUANT_CODEC_OK);
    std::vector<std::byte> bytes(most);
    const int status = equant_codec_encode(codec_, &array, values.data(), values.size(), residual,
                                           bytes.data(), bytes.size(), &written);
    INFO(equant_codec_error(codec_));
    REQUIRE(status == EQUANT_CODEC_OK);
    bytes.resize(written);
    return bytes;
  }

  std::vector<float> decoded(const equant_array& array, const std::vector<std::byte>& bytes,
                             std::size_t count) {
    std::vector<float> values(count);
    const int status = equant_codec_decode(codec_, &array, bytes.data(), bytes.size(),
                                           values.data(), values.size());
    INFO(equant_codec_error(codec_));
    REQUIRE(status == EQUANT_CODEC_OK);
    return values;
  }

 private:
  equant_codec* codec_ = nullptr;
};

Segment segment_of(const equant_array& array, std::size_t count) {
  return {.slice = array.tensor, .begin = 0, .count = count, .rows = array.rows};
}

std::vector<std::byte> programs_bytes(const Compressor& compressor, const equant_array& array,
                                      const std::vector<float>& values, std::span<float> residual) {
  const Segment segment = segment_of(array, values.size());
  Workspace workspace;
  std::vector<std::byte> bytes(max_message_bytes(compressor, {&segment, 1}));
  const MessageContext context = {.run_seed = kSeed,
                                  .id = {array.step, array.tensor},
                                  .rank = array.rank,
                                  .residual = residual};
  bytes.resize(MessageCodec(compressor, {&segment, 1}, workspace).encode(values, context, bytes));
  return bytes;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_same(const Compressor& compressor, Codec& codec, const equant_array& array,
                std::size_t count) {
  const std::vector<float> values = test::portable_values(count, 7);
  std::vector<float> residual = test::portable_values(count, 8), other_residual = residual;
  const bool feedback = compressor.properties().needs_feedback;
  const std::vector<std::byte> expected = programs_bytes(
      compressor, array, values, feedback ? std::span<float>(residual) : std::span<float>());
  const auto bytes = codec.encoded(array, values, feedback ? other_residual.data() : nullptr);
  REQUIRE(bytes == expected);
  REQUIRE(same_bits(residual, other_residual));

  const Segment segment = segment_of(array, count);
  Workspace workspace;
  std::vector<float> sum(count);
  MessageCodec(compressor, {&segment, 1}, workspace)
      .decode_add(expected, {array.step, array.tensor}, 1.0f, sum);
  REQUIRE(same_bits(codec.decoded(array, bytes, count), sum));
}

}  // namespace

TEST_CASE("every compressor has the program's bytes and values", "[c_interface]") {
  std::size_t index = 0;
  for (const Entry<CompressorRow> row : CompressorRow::all()) {
    INFO(row->name);
    REQUIRE(equant_codec_name(index++) == std::string(row->name));
    Codec codec(std::string(row->name), "{}");
    const auto compressor = test::made_by_default(*row);
    for (const std::size_t count : {0u, 1u, 513u, 10007u})
      check_same(*compressor, codec, {.step = 7, .tensor = 9, .rank = 3, .rows = 0}, count);
    check_same(*compressor, codec, {.step = 8, .tensor = 2, .rank = 1, .rows = 32}, 32 * 65);
  }
  REQUIRE(equant_codec_count() == index);
}

TEST_CASE("options reach the compressor", "[c_interface]") {
  const equant_array array = {.step = 1, .tensor = 0, .rank = 0, .rows = 0};
  Codec coded("qsgd", R"({"bits": 3, "bucket_size": 100, "coding": "huffman"})");
  check_same(*make_compressor("qsgd", {.bits = 3, .bucket_size = 100, .coding = Coding::huffman}),
             coded, array, 1000);
  Codec general("elastiquant", R"({"bits": 3, "levels": "general", "table": [0.25, 0.5, 1]})");
  check_same(
      *test::made_by_default(kElastiQuant,
                             {.bits = 3, .levels = LevelFamily::general, .table = {0.25, 0.5, 1}}),
      general, array, 1000);
  Codec half("topk", R"({"density": 0.125, "value_bits": 16, "skip_below": 0})");
  check_same(*make_compressor("topk", {.density = 0.125, .value_bits = 16}), half, array, 1000);
}

TEST_CASE("payloads are the frozen ones", "[c_interface][golden]") {
  const auto golden =
      codec::testing::read_json(EQT_SOURCE_DIR "/tests/codec/golden/codec_basic.json");
  const auto& key = golden.at("key");
  REQUIRE(key.at("run_seed") == kSeed);
  const equant_array array = {
      .step = key.at("step"), .tensor = key.at("slice"), .rank = key.at("rank"), .rows = 0};
  std::size_t compared = 0;
  for (const auto& row : golden.at("cases")) {
    if (row.contains("shared") || row.contains("first_index")) continue;  // what a program passes
    INFO(row.dump());
    const nlohmann::json options =
        row.contains("clip") ? nlohmann::json{{"clip", row.at("clip")}} : nlohmann::json::object();
    Codec codec(row.at("codec").get<std::string>(), options.dump());
    auto bytes = codec.encoded(
        array, codec::testing::floats(golden.at("inputs").at(row.at("input").get<std::string>())));
    bytes.erase(bytes.begin(), bytes.begin() + kFrameBytes);
    REQUIRE(codec::testing::hex(bytes) == row.at("payload").get<std::string>());
    ++compared;
  }
  REQUIRE(compared == 25);
}
