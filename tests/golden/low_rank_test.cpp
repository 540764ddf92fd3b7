// Frozen payloads of powersgd and of entrywise atoms; make_low_rank.py computes them without this
// program.

#include <bit>

#include "codec/codecs.hpp"
#include "unit/codec/codec_case.hpp"
#include "unit/codec/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  if (row.at("codec") == "powersgd") return make_powersgd({.rank = row.at("rank").get<int>()});
  return make_atomo({.atoms = Atoms::entrywise, .density = row.at("density").get<double>()});
}

std::vector<float> floats(const nlohmann::json& words) {
  std::vector<float> values;
  for (const auto& word : words) {
    const auto bits = std::stoul(word.get<std::string>(), nullptr, 16);
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

}  // namespace

TEST_CASE("low-rank payloads are the frozen ones on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/golden/low_rank.json");
  const auto& key = golden.at("key");
  REQUIRE(golden.at("cases").size() == 16);
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto codec = make(row);
    REQUIRE(codec->format_version() == 1);
    REQUIRE(codec_name(codec->id()) == row.at("codec").get<std::string>());
    const auto values = floats(golden.at("inputs").at(row.at("input").get<std::string>()));
    EncodeContext context;
    context.key = {key.at("run_seed"), key.at("step"), key.at("rank"), key.at("slice")};
    context.rows = row.value("rows", std::size_t{0});
    on_every_target([&] {
      REQUIRE(hex(encode(*codec, values, context)) == row.at("payload").get<std::string>());
    });
  }
}
