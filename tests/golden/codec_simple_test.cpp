// Frozen payloads of int8, natural and the sign codecs; make_codec_simple.py computes them without
// this program.

#include <bit>

#include "codec/codecs.hpp"
#include "unit/codec/codec_case.hpp"
#include "unit/codec/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  const auto name = row.at("codec").get<std::string>();
  if (name == "int8") return make_int8({.bucket_size = row.at("bucket_size").get<std::size_t>()});
  if (name == "natural") return make_natural();
  if (name == "signsgd") return make_signsgd();
  if (name == "ef-signsgd") return make_ef_signsgd();
  REQUIRE(name == "onebit");
  return make_onebit();
}

std::vector<float> floats(const nlohmann::json& words) {
  std::vector<float> values;
  for (const auto& word : words) {
    const auto bits = std::stoul(word.get<std::string>(), nullptr, 16);
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

EncodeContext context_of(const nlohmann::json& key, const nlohmann::json& row) {
  EncodeContext context;
  context.key = {key.at("run_seed"), key.at("step"), key.at("rank"), key.at("slice")};
  context.first_index = row.value("first_index", std::uint64_t{0});
  context.rows = row.value("rows", std::size_t{0});
  return context;
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

}  // namespace

TEST_CASE("payloads of the simple codecs are the frozen ones on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/golden/codec_simple.json");
  REQUIRE(golden.at("cases").size() == 40);
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto codec = make(row);
    const auto values = floats(golden.at("inputs").at(row.at("input").get<std::string>()));
    REQUIRE(codec_name(codec->id()) == row.at("codec").get<std::string>());
    REQUIRE(codec->format_version() == row.at("format_version").get<int>());
    on_every_target([&] {
      REQUIRE(hex(encode(*codec, values, context_of(golden.at("key"), row))) ==
              row.at("payload").get<std::string>());
    });
  }
}
