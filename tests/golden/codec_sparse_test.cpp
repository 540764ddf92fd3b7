// Frozen payloads of the sparse compressors; make_codec_sparse.py computes them without this
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
  const auto name = row.at("codec").get<std::string>();
  const int bits = row.at("value_bits").get<int>();
  if (name == "threshold") {
    return make_threshold({.threshold = row.at("threshold").get<double>(), .value_bits = bits});
  }
  const double density = row.at("density").get<double>();
  if (name == "topk") return make_topk({.density = density, .value_bits = bits});
  if (name == "dgc") return make_dgc({.density = density, .value_bits = bits});
  REQUIRE(name == "randomk");
  return make_randomk(
      {.density = density, .value_bits = bits, .unbiased = row.at("unbiased").get<bool>()});
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

TEST_CASE("sparse payloads are the frozen ones on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/golden/codec_sparse.json");
  REQUIRE(golden.at("cases").size() == 124);
  const auto& key = golden.at("key");
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto codec = make(row);
    const auto values = floats(golden.at("inputs").at(row.at("input").get<std::string>()));
    REQUIRE(codec_name(codec->id()) == row.at("codec").get<std::string>());
    REQUIRE(codec->format_version() == row.at("format_version").get<int>());
    EncodeContext context;
    context.key = {key.at("run_seed"), key.at("step"), key.at("rank"), key.at("slice")};
    context.first_index = row.value("first_index", std::uint64_t{0});
    on_every_target([&] {
      REQUIRE(hex(encode(*codec, values, context)) == row.at("payload").get<std::string>());
    });
  }
}
