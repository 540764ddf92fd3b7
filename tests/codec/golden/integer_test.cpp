// SPDX-License-Identifier: Apache-2.0
// Frozen messages of the integer collective; make_integer.py computes them without this program.

#include "codec/golden/frozen_payloads.hpp"
#include "support/integer_case.hpp"

using namespace eqt;
using namespace eqt::codec::testing;

TEST_CASE("integer messages equal the frozen ones on every target", "[golden]") {
  const auto golden = read_json(EQT_SOURCE_DIR "/tests/codec/golden/integer.json");
  REQUIRE(golden.at("cases").size() == 6);
  REQUIRE(golden.at("run_seed") == 42);
  std::vector<std::vector<float>> values;
  for (const auto& words : golden.at("values")) values.push_back(floats(words));
  for (const auto& row : golden.at("cases")) {
    const auto compressor =
        test::make_summable(row.at("codec").get<std::string>(), row.at("bits").get<int>(),
                            row.at("bucket_size").get<std::size_t>());
    on_every_target([&] {
      INFO(row.at("codec") << " " << row.at("bits"));
      test::IntegerCase one(*compressor, values, golden.at("count").get<std::size_t>(),
                            golden.at("first_index").get<std::uint64_t>());
      one.agree();
      std::vector<Bytes> codes;
      for (std::size_t r = 0; r < values.size(); ++r) {
        REQUIRE(hex(one.scales_message(r)) == row.at("scales")[r].get<std::string>());
        codes.push_back(one.codes_message(r));
        REQUIRE(hex(codes.back()) == row.at("codes")[r].get<std::string>());
      }
      REQUIRE(hex(one.sums_message(codes)) == row.at("sums").get<std::string>());
    });
  }
}
