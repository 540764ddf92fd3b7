// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of the level codecs; make_levels.py computed them from the format's description.

#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/level_vectors.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& c) {
  const auto codec = c.at("codec").get<std::string>();
  const auto coding_name = c.at("coding").get<std::string>();
  const int bits = c.at("bits").get<int>();
  const auto bucket_size = c.at("bucket_size").get<std::size_t>();
  const Named<Coding>* const coding = find_named<Coding>(coding_name);
  CompressorOptions options{.bits = bits,
                            .bucket_size = bucket_size,
                            .coding = coding != nullptr ? coding->value : Coding::automatic};
  if (CompressorRow::all().at(codec)->reads.has(Option::elasticity)) {
    options.norm = find_named<Norm>(c.at("norm").get<std::string>())->value;
    options.levels = find_named<LevelFamily>(c.at("levels").get<std::string>())->value;
    options.elasticity = c.at("elasticity").get<double>();
  }
  return make_compressor(codec, options);
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("payloads have the frozen bytes on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/codec/golden/levels.json");
  const auto& key = golden.at("key");
  EncodeContext context;
  context.key = {key.at("run_seed").get<std::uint64_t>(), key.at("step").get<StepId>(),
                 key.at("rank").get<std::uint32_t>(), key.at("slice").get<std::uint32_t>()};
  REQUIRE(golden.at("cases").size() >= 60);
  for_each_simd_target([&] {
    for (const auto& c : golden.at("cases")) {
      INFO(c.dump());
      const auto compressor = make(c);
      REQUIRE(compressor->format_version() == golden.at("format_version").get<int>());
      const auto values =
          golden.at("inputs").at(c.at("input").get<std::string>()).get<std::vector<float>>();
      context.first_index = c.at("first_index").get<std::uint64_t>();
      REQUIRE(hex_of(encode_to_vector(*compressor, values, context)) ==
              c.at("payload").get<std::string>());
    }
  });
}
