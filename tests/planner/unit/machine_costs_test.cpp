// SPDX-License-Identifier: Apache-2.0
// Speeds of compressors from what `bench codecs --json` printed.

#include "planner/machine_costs.hpp"

#include "config/compressor_settings.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

const char* const kLines =
    R"({"compressor":"elastiquant","bits":4,"encode_gb_s":8,"decode_add_gb_s":16,"feedback_gb_s":4}
{"compressor":"none","bits":null,"encode_gb_s":10,"decode_add_gb_s":20,"feedback_gb_s":null}
)";

collective::CodecCosts costs(CodecSpeeds& speeds, const char* name, bool feedback) {
  const config::RunConfig config = config::compressor_config(name, {}, "test");
  return speeds.of(config, *config.compressor.make(), feedback);
}

}  // namespace

TEST_CASE("speeds of a calibration are seconds a value of four bytes", "[planner]") {
  CodecSpeeds speeds(parse_codec_lines(kLines, "speeds.json"), "speeds.json");
  CHECK(costs(speeds, "elastiquant", false).encode == Approx(4 / 8e9));
  CHECK(costs(speeds, "elastiquant", false).decode == Approx(4 / 16e9));
  CHECK(costs(speeds, "elastiquant", true).encode == Approx(4 / 4e9));
  CHECK(costs(speeds, "none", false).encode == Approx(4 / 10e9));
}

TEST_CASE("a compressor that the calibration lacks is named", "[planner]") {
  CodecSpeeds speeds(parse_codec_lines(kLines, "speeds.json"), "speeds.json");
  CHECK_THROWS_WITH(costs(speeds, "qsgd", false), ContainsSubstring("compressor qsgd"));
}

TEST_CASE("a calibration of another machine says so, other text is refused", "[planner]") {
  const auto lines = [](const char* text) { return parse_codec_lines(text, "x"); };
  const CodecSpeeds other(
      lines(
          R"({"compressor":"none","bits":null,"encode_gb_s":1,"decode_add_gb_s":1,"simd":"Z80"})"),
      "speeds.json");
  CHECK_THAT(other.origin(), ContainsSubstring("Z80"));
  CHECK_THROWS_AS(lines("[1, 2]"), Error);
  CHECK_THROWS_AS(lines("hello"), Error);
  CHECK_THROWS_WITH(lines(R"({"compressor":"none","encode_gb_s":-1,"decode_add_gb_s":1})"),
                    ContainsSubstring("x:1.encode_gb_s") && ContainsSubstring("above 0"));
  CHECK_THROWS_WITH(lines(R"({"compressor":"none","encode_gb_s":1})"),
                    ContainsSubstring("decode_add_gb_s"));
}

TEST_CASE("what is measured depends on all keys of the compressor", "[planner]") {
  CodecSpeeds speeds;
  const auto variance = [&](const char* density) {
    const std::vector<std::string> sets = {std::string("compressor.density=") + density,
                                           "compressor.unbiased=true"};
    const config::RunConfig config = config::compressor_config("randomk", sets, "test");
    return *speeds.variance_of(config, *config.compressor.make());
  };
  // 1 / density - 1 of |values|^2.
  CHECK(variance("0.01") == Approx(99).epsilon(0.1));
  CHECK(variance("0.5") == Approx(1).epsilon(0.1));
}

}  // namespace eqt::planner
