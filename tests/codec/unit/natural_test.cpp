// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "codec/catalogue.hpp"
#include "codec/unit/vectors.hpp"
#include "support/sign_oracle.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

EncodeContext draw(std::uint64_t step, std::uint64_t first_index = 0) {
  EncodeContext context;
  context.key = {5, step, 1, 2};
  context.first_index = first_index;
  return context;
}

/// Variance of one rounded value: (hi - |x|)(|x| - lo) between the powers of two around it.
double variance_of(float x) {
  const double a = std::abs(double{x});
  if (a < 0x1p-126) return a * (0x1p-126 - a);
  const double low = std::exp2(std::ilogb(a));
  return (2 * low - a) * (a - low);
}

struct Draws {
  std::vector<double> mean;
  double squared_error = 0;  // mean over draws, of all values
};

Draws over_draws(std::span<const float> values, int draws) {
  const auto codec = make_compressor("natural");
  Draws result{std::vector<double>(values.size()), 0};
  for (int n = 0; n < draws; ++n) {
    const Bytes payload = encode(*codec, values, draw(static_cast<std::uint64_t>(n)));
    const auto out = decode(*codec, payload, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) result.mean[i] += double{out[i]} / draws;
    result.squared_error += squared_distance(out, values) / draws;
  }
  return result;
}

void require_unbiased(std::span<const float> values, int draws) {
  const Draws result = over_draws(values, draws);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::sqrt(variance_of(values[i]) / draws);
    INFO(values[i]);
    // The random integers have 23 bits, the fraction, too: no bias beyond chance. The mean itself
    // is summed in fp64.
    REQUIRE(std::abs(result.mean[i] - values[i]) <=
            5 * error + 1e-12 * std::abs(double{values[i]}));
  }
}

}  // namespace

TEST_CASE("natural's bytes equal the oracle's on every target", "[natural]") {
  const auto codec = make_compressor("natural");
  auto counts = kCounts;
  counts.insert(counts.end(), {4095, 4096, 4097, 8200});
  for (const std::size_t count : counts) {
    for (const double deviation : {1e-44, 1e-38, 1e-3, 1e37}) {
      const auto values = gaussian(count, deviation, count);
      const Bytes expected = plain_natural(values, draw(count));
      on_every_target([&] { REQUIRE(encode(*codec, values, draw(count)) == expected); });
      REQUIRE(expected.size() == codec->max_payload_bytes(count));
    }
  }
}

TEST_CASE("natural's counters beyond 2^32 use another block", "[natural]") {
  const auto codec = make_compressor("natural");
  const auto values = gaussian(5000, 1e-2);
  for (const std::uint64_t before : {0u, 1u, 31u, 32u, 100u, 4096u, 4097u, 4999u}) {
    const auto context = draw(3, (std::uint64_t{1} << 32) - before);
    const Bytes expected = plain_natural(values, context);
    on_every_target([&] { REQUIRE(encode(*codec, values, context) == expected); });
  }
}

TEST_CASE("natural rounds to a neighbouring power of two, and zeros to zero", "[natural]") {
  const auto codec = make_compressor("natural");
  auto values = gaussian(10007, 1e-3);
  for (std::size_t i = 0; i < values.size(); i += 5) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (std::size_t i = 1; i < values.size(); i += 5) values[i] = std::ldexp(-1.0f, -(int(i) % 126));
  const auto out = decode(*codec, encode(*codec, values, draw(1)), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) {
      REQUIRE(std::bit_cast<std::uint32_t>(out[i]) == 0);
      continue;
    }
    const float low = std::ldexp(1.0f, std::ilogb(values[i]));
    const float magnitude = std::abs(out[i]);
    REQUIRE((magnitude == low || (magnitude == 2 * low && std::abs(values[i]) != low)));
    REQUIRE(std::signbit(out[i]) == std::signbit(values[i]));
  }
}

TEST_CASE("natural is unbiased with the reference's exact variance", "[natural][vectors]") {
  for_each_vector_file(
      [](const nlohmann::json& vectors) {
        const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
        const auto& rows = vectors.at("natural_compression").at("v8");
        double variance = 0;
        for (std::size_t i = 0; i < 8; ++i) {
          REQUIRE(variance_of(v8[i]) == Approx(rows.at(i).at("var").get<double>()).margin(1e-12));
          variance += variance_of(v8[i]);
        }
        REQUIRE(variance / squared_norm(v8) ==
                Approx(vectors.at("natural_compression").at("variance_ratio_v8").get<double>()));
        require_unbiased(v8, 20000);
        REQUIRE(over_draws(v8, 20000).squared_error == Approx(variance).epsilon(0.03));
      },
      "vectors_simple.json");
}

TEST_CASE("natural's variance is at most an eighth, reached at 4/3 of a power", "[natural]") {
  const std::vector<float> worst(2000, 4.0f / 3 * 0x1p-9f);
  const double error = over_draws(worst, 50).squared_error;
  REQUIRE(error == Approx(squared_norm(worst) / 8).epsilon(0.02));
  const auto values = gaussian(2000, 1e-4);
  REQUIRE(over_draws(values, 50).squared_error < squared_norm(values) / 8);
  require_unbiased(gaussian(300, 1e-4), 3000);
}

TEST_CASE("natural is unbiased among subnormals", "[natural]") {
  const auto values = gaussian(300, 3e-39);
  require_unbiased(values, 3000);
}

TEST_CASE("natural sends 2^127 and refuses what could become infinite", "[natural]") {
  const auto codec = make_compressor("natural");
  const std::vector<float> edge{0x1p127f, -0x1p127f};
  for (std::uint64_t step = 0; step < 100; ++step) {
    REQUIRE(decode(*codec, encode(*codec, edge, draw(step)), 2) == edge);
  }
  for (const float bad :
       {std::nextafter(0x1p127f, HUGE_VALF), -std::numeric_limits<float>::max()}) {
    auto values = gaussian(50);
    values[37] = bad;
    const auto message = refusal(Kind::diverged, [&] { encode(*codec, values, draw(0)); });
    REQUIRE(contains(message, "index 37"));
  }
}

TEST_CASE("natural rejects infinity, used padding and other lengths", "[natural]") {
  const auto codec = make_compressor("natural");
  for (const std::size_t count : {1u, 8u, 31u, 32u, 33u, 100u}) {
    const Bytes good = encode(*codec, gaussian(count), draw(0));
    for (std::size_t i = 0; i < count; ++i) {
      Bytes bad = good;
      bad[i] = std::byte{255};
      on_every_target([&] {
        REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "255"));
      });
    }
    for (std::size_t bit = count % 8; bit % 8 != 0; ++bit) {
      Bytes bad = good;
      bad.back() |= std::byte{1} << bit;
      REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "zeros"));
    }
    Bytes longer = good;
    longer.push_back(std::byte{0});
    refusal(Kind::wire, [&] { decode(*codec, longer, count); });
  }
}
