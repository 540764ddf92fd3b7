// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of powersgd and of entrywise atoms; make_low_rank.py computes them without this
// program.

#include "codec/golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  if (row.at("codec") == "powersgd")
    return make_compressor("powersgd", {.rank = row.at("rank").get<int>()});
  return make_compressor("atomo",
                         {.atoms = Atoms::entrywise, .density = row.at("density").get<double>()});
}

}  // namespace

TEST_CASE("low-rank payloads equal the frozen ones on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/codec/golden/low_rank.json");
  const auto& key = golden.at("key");
  REQUIRE(golden.at("cases").size() == 16);
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto codec = make(row);
    REQUIRE(codec->format_version() == 1);
    REQUIRE(codec_name(codec->id()) == row.at("codec").get<std::string>());
    const auto values = floats(golden.at("inputs").at(row.at("input").get<std::string>()));
    const auto context = context_of(key, row);
    on_every_target([&] {
      REQUIRE(hex(encode(*codec, values, context)) == row.at("payload").get<std::string>());
    });
  }
}
