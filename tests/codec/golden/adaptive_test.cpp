// SPDX-License-Identifier: Apache-2.0
// Adapted levels and their payloads against numbers that make_adaptive.py computed.

#include <string>
#include <vector>

#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/adaptive_levels.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/level_vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;
using nlohmann::json;

namespace {

const json& golden() {
  static const json numbers = read_json(EQT_SOURCE_DIR "/tests/codec/golden/adaptive.json");
  return numbers;
}

Approx near(const json& number, double relative = 1e-9) {
  return Approx(number.get<double>()).epsilon(relative).margin(0);
}

NormalMixture mixture_of(const json& parts) {
  std::vector<NormalComponent> components;
  for (const json& part : parts) components.push_back({part[0], part[1], part[2]});
  return NormalMixture(components);
}

void check_levels(const Levels& found, const json& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    INFO("level " << j);
    CHECK(found[j] == Approx(expected[j].get<double>()).epsilon(tolerance).margin(0));
  }
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Coding coding_of(const json& c) {
  const auto name = c.at("coding").get<std::string>();
  return name == "fixed"     ? Coding::fixed
         : name == "elias"   ? Coding::elias
         : name == "huffman" ? Coding::huffman
                             : Coding::automatic;
}

std::unique_ptr<Compressor> make(const json& c) {
  const auto name = c.at("codec").get<std::string>();
  const int bits = c.at("bits").get<int>();
  const auto bucket_size = c.at("bucket_size").get<std::size_t>();
  const Coding coding = coding_of(c);
  CompressorOptions options{.bits = bits, .bucket_size = bucket_size, .coding = coding};
  if (name != "elastiquant" && CompressorRow::all().find(name) != nullptr)
    return make_compressor(name, options);
  if (name == "mulaw") {
    options.levels = LevelFamily::mulaw;
    options.elasticity = c.at("elasticity").get<double>();
  } else if (name == "general") {
    options.levels = LevelFamily::general;
    options.table = c.at("table").get<std::vector<double>>();
    options.table.erase(options.table.begin());
  } else {
    options.levels = LevelFamily::adaptive;
  }
  return make_compressor("elastiquant", options);
}

}  // namespace

TEST_CASE("variances, slopes and descents of mixtures", "[adaptive][golden]") {
  REQUIRE(golden().at("mixtures").size() >= 4);
  for (const json& row : golden().at("mixtures")) {
    INFO(row.at("parts").dump());
    const NormalMixture mixture = mixture_of(row.at("parts"));
    const Levels exponential = exponential_levels(7, 0.5);
    CHECK(expected_variance(mixture, exponential) == near(row.at("psi_exponential")));
    CHECK(expected_variance(mixture, uniform_levels(3)) == near(row.at("psi_uniform3")));
    CHECK(best_between(mixture, 0.01, 0.2, 0.1) == near(row.at("beta")));
    CHECK(level_slope(mixture, 0.01, 0.05, 0.2) == near(row.at("slope"), 1e-8));

    Levels swept = exponential, stepped = exponential;
    for (int i = 0; i < 60; ++i) sweep_levels(mixture, swept);
    for (int i = 0; i < 10; ++i) gradient_sweep_levels(mixture, stepped, 2);
    check_levels(swept, row.at("swept"), 1e-7);
    check_levels(stepped, row.at("stepped"), 1e-8);
    CHECK(expected_variance(mixture, swept) == near(row.at("swept_psi")));

    const double p = adapted_multiplier(mixture, 3, 0.5);
    CHECK(p == near(row.at("best_p3"), 1e-5));
    CHECK(multiplier_variance(mixture, 3, p, Centre::zero_level) == near(row.at("best_p3_psi")));
    CHECK(multiplier_slope(mixture, 3, 0.4, Centre::zero_level) ==
          near(row.at("p3_slope_at_0.4"), 1e-6));
  }
}

TEST_CASE("statistics of gradients give the mixture of their runs", "[adaptive][golden]") {
  REQUIRE(golden().at("statistics").size() >= 6);
  for (const json& row : golden().at("statistics")) {
    INFO(row.at("norm") << ", buckets of " << row.at("bucket_size"));
    const auto values = row.at("values").get<std::vector<float>>();
    GradientStatistics statistics;
    statistics.add(values, row.at("bucket_size").get<std::size_t>(),
                   row.at("norm") == "l2" ? Norm::l2 : Norm::max);
    const auto model = statistics.model();
    REQUIRE(model);
    const double variance = expected_variance(model->mixture, exponential_levels(3, 0.3));
    // The generator's values are doubles, these are floats.
    CHECK(variance == near(row.at("psi_exponential"), 1e-6));
    CHECK(model->variance_scale * variance == near(row.at("relative"), 1e-6));
  }
}

TEST_CASE("payloads of the new tables have the frozen bytes", "[adaptive][golden]") {
  const json& key = golden().at("key");
  EncodeContext context;
  context.key = {key.at("run_seed").get<std::uint64_t>(), key.at("step").get<StepId>(),
                 key.at("rank").get<std::uint32_t>(), key.at("slice").get<std::uint32_t>()};
  const auto values = golden().at("values").get<std::vector<float>>();
  REQUIRE(golden().at("payloads").size() >= 40);
  for (const json& c : golden().at("payloads")) {
    INFO(c.dump());
    const auto compressor = make(c);
    if (AdaptiveLevelCodec* const adaptive = compressor->adaptive_levels()) {
      adaptive->set_levels(c.at("table").get<Levels>());
      CHECK(adaptive->fingerprint() == c.at("fingerprint").get<std::uint32_t>());
      CHECK(adaptive->format_version() == 0x82);
    } else {
      CHECK(compressor->format_version() == 2);
    }
    context.first_index = c.at("first_index").get<std::uint64_t>();
    CHECK(hex_of(encode_to_vector(*compressor, values, context)) ==
          c.at("payload").get<std::string>());
  }
}
