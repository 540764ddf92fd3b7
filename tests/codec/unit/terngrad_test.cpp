// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr double kClip = 2.5;

/// The paper's scale, by its definition.
double plain_scale(std::span<const float> values, double clip) {
  double mean = 0, variance = 0, largest = 0;
  for (const float g : values) mean += g;
  mean /= static_cast<double>(values.size());
  for (const float g : values) variance += (g - mean) * (g - mean);
  variance /= static_cast<double>(values.size());
  for (const float g : values) largest = std::max(largest, std::abs(double{g}));
  return clip > 0 ? std::min(largest, clip * std::sqrt(variance)) : largest;
}

/// The oracle of the vector kernels: one value at a time, from the definition in terngrad.cpp.
Bytes plain_encode(std::span<const float> values, float own, float shared,
                   const EncodeContext& context) {
  Bytes payload(4 + (values.size() + 3) / 4, std::byte{0});
  store(payload.data(), shared);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t index = context.first_index + i;
    const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32));
    const float probability = std::min(std::abs(values[i]), own) / shared;
    if (!(stream.uniform(static_cast<std::uint32_t>(index)) < probability)) continue;
    payload[4 + i / 4] |= static_cast<std::byte>((values[i] > 0 ? 1 : 2) << (2 * (i % 4)));
  }
  return payload;
}

EncodeContext draw(std::uint64_t step) {
  EncodeContext context;
  context.key = {5, step, 1, 2};
  return context;
}

struct Statistics {
  std::vector<double> mean;
  double squared_error = 0;  // mean over draws of |out - in|^2
};

Statistics over_draws(const Compressor& codec, std::span<const float> values, int draws,
                      std::optional<float> shared) {
  Statistics statistics{std::vector<double>(values.size()), 0};
  for (int draw_index = 0; draw_index < draws; ++draw_index) {
    EncodeContext context = draw(static_cast<std::uint64_t>(draw_index));
    context.shared_scale = shared;
    const auto out = decode(codec, encode(codec, values, context), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) statistics.mean[i] += double{out[i]} / draws;
    statistics.squared_error += squared_distance(out, values) / draws;
  }
  return statistics;
}

/// The mean over draws is `expected`, within five standard errors of Bernoulli(|expected| / scale).
void require_mean(const Statistics& statistics, std::span<const float> expected, double scale,
                  int draws) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double g = std::abs(double{expected[i]});
    const double error = std::sqrt(std::max(0.0, g * (scale - g)) / draws);
    REQUIRE(std::abs(statistics.mean[i] - expected[i]) <= 5 * error + 1e-6 * scale);
  }
}

}  // namespace

TEST_CASE("terngrad's bytes equal the oracle's on every target", "[terngrad]") {
  auto counts = kCounts;
  counts.insert(counts.end(), {1023, 1024, 1025, 1039, 1040, 2064});  // around a kernel's chunks
  for (const double clip : {0.0, kClip}) {
    const auto codec = make_compressor("terngrad", {.clip = clip});
    for (const std::size_t count : counts) {
      if (count == 0) continue;
      const auto values = gaussian(count, 1e-3, count);
      const auto context = draw(count);
      const float own = codec->local_scale(values);
      const Bytes expected = plain_encode(values, own, own, context);
      on_every_target([&] {
        REQUIRE(codec->local_scale(values) == own);
        REQUIRE(encode(*codec, values, context) == expected);
      });
    }
  }
}

TEST_CASE("terngrad's scale is the largest value after clipping", "[terngrad]") {
  for (const std::size_t count : kCounts) {
    if (count < 2) continue;
    auto values = gaussian(count, 0.01, count);
    for (float& v : values) v += 0.004f;
    for (const double clip : {0.0, 1.0, kClip, 100.0}) {
      const auto codec = make_compressor("terngrad", {.clip = clip});
      REQUIRE(codec->local_scale(values) == Approx(plain_scale(values, clip)).epsilon(1e-6));
    }
  }
}

TEST_CASE("terngrad agrees with the reference vectors", "[terngrad][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto& cases = vectors.at("terngrad");
    const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
    const auto w16 = cases.at("w16").get<std::vector<float>>();
    for (const char* name :
         {"v8_noclip", "v8_clip2.5", "w16_noclip", "w16_clip2.5", "shared_scaler_v8_scaler4"}) {
      INFO(name);
      const auto& row = cases.at(name);
      const auto values = name[0] == 'w' ? w16 : v8;
      const bool clips = !row.at("clip_factor").is_null();
      const auto codec = make_compressor("terngrad", {.clip = clips ? kClip : 0.0});
      const double scaler = row.at("scaler").get<double>();
      const bool shared = std::string(name).starts_with("shared");
      if (!shared) REQUIRE(codec->local_scale(values) == Approx(scaler).epsilon(1e-6));

      const int draws = 20000;
      const auto statistics = over_draws(
          *codec, values, draws, shared ? std::optional(static_cast<float>(scaler)) : std::nullopt);
      const auto expected = row.at("expected_value").get<std::vector<float>>();
      require_mean(statistics, expected, scaler, draws);
      if (row.at("bias_l2_vs_unclipped").get<double>() == 0) {
        const double variance = row.at("variance_total").get<double>();
        REQUIRE(statistics.squared_error == Approx(variance).epsilon(0.05));
      }
    }
  });
}

TEST_CASE("two-bit codes are those of the reference vectors", "[terngrad][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto& example = vectors.at("terngrad").at("pack2bit_example");
    const auto ternary = example.at("ternary").get<std::vector<float>>();
    const auto bytes = example.at("bytes").get<std::vector<int>>();
    Bytes payload(4);
    store(payload.data(), 1.0f);
    for (const int byte : bytes) payload.push_back(static_cast<std::byte>(byte));
    const auto codec = make_compressor("terngrad", {.clip = 0});
    on_every_target([&] {
      REQUIRE(decode(*codec, payload, ternary.size()) == ternary);
      // Values of 0 and +-max are drawn with certainty.
      REQUIRE(encode(*codec, ternary, draw(1)) == payload);
    });
  });
}

TEST_CASE("terngrad without clipping is unbiased with variance sum |g| (S - |g|)", "[terngrad]") {
  const auto codec = make_compressor("terngrad", {.clip = 0});
  const auto values = gaussian(200, 0.1);
  for (const std::optional<float> shared : {std::optional<float>(), std::optional(0.5f)}) {
    const float scale = shared.value_or(codec->local_scale(values));
    double variance = 0, fourth = 0;
    for (const float v : values) {
      const double g = std::abs(double{v});
      const double p = g / scale;
      variance += g * (scale - g);
      // Variance of one value's squared error (S - g)^2 with probability p, else g^2.
      fourth += p * (1 - p) * std::pow((scale - g) * (scale - g) - g * g, 2);
    }
    const int draws = 4000;
    const auto statistics = over_draws(*codec, values, draws, shared);
    require_mean(statistics, values, scale, draws);
    REQUIRE(std::abs(statistics.squared_error - variance) < 5 * std::sqrt(fourth / draws));
  }
}

TEST_CASE("values without spread are not clipped", "[terngrad]") {
  const auto codec = make_compressor("terngrad", {.clip = kClip});
  for (const std::size_t count : {1u, 5u, 1000u}) {
    const std::vector<float> equal(count, -0.1f);
    REQUIRE(codec->local_scale(equal) == 0.1f);
    REQUIRE(decode(*codec, encode(*codec, equal, draw(0)), count) == equal);
  }
}

TEST_CASE("a part of a slice with the shared scale has the bytes of the whole", "[terngrad]") {
  const auto codec = make_compressor("terngrad", {.clip = 0});
  const auto values = gaussian(1000, 1e-2);
  auto context = draw(3);
  context.shared_scale = codec->local_scale(values);
  const auto whole = decode(*codec, encode(*codec, values, context), values.size());
  for (const std::size_t cut : {1u, 4u, 333u, 999u}) {
    context.first_index = cut;
    const auto tail = std::span(values).subspan(cut);
    const auto out = decode(*codec, encode(*codec, tail, context), tail.size());
    REQUIRE(same_bits(out, std::span(whole).subspan(cut)));
  }
}

TEST_CASE("counters beyond 2^32 use another block", "[terngrad]") {
  const auto codec = make_compressor("terngrad", {.clip = 0});
  const auto values = gaussian(200, 1e-2);
  const float own = codec->local_scale(values);
  auto context = draw(3);
  const Bytes low = encode(*codec, values, context);
  for (const std::uint64_t before : {0u, 1u, 15u, 16u, 100u}) {
    context.first_index = (std::uint64_t{1} << 32) - before;
    on_every_target([&] {
      const Bytes crossing = encode(*codec, values, context);
      REQUIRE(crossing == plain_encode(values, own, own, context));
      REQUIRE(crossing != low);
    });
  }
}

TEST_CASE("decode_add adds scale times the value on every target", "[terngrad]") {
  const auto codec = make_compressor("terngrad", {.clip = kClip});
  for (const std::size_t count : kCounts) {
    const auto values = gaussian(count, 0.3);
    const Bytes payload = encode(*codec, values, draw(8));
    const auto decoded = decode(*codec, payload, count);
    const auto start = gaussian(count, 1, 77);
    auto expected = start;
    for (std::size_t i = 0; i < count; ++i) expected[i] += -0.7f * decoded[i];
    on_every_target([&] {
      auto sum = start;
      Workspace workspace;
      codec->decode_add(payload, -0.7f, workspace, sum);
      REQUIRE(same_bits(sum, expected));
    });
  }
}

TEST_CASE("terngrad rejects an invalid code, padding or scale", "[terngrad]") {
  const auto codec = make_compressor("terngrad");
  for (const std::size_t count : {1u, 15u, 16u, 17u, 18u, 19u, 100u}) {
    const Bytes good = encode(*codec, gaussian(count), draw(0));
    for (std::size_t i = 0; i < 4 * (good.size() - 4); ++i) {
      Bytes bad = good;
      bad[4 + i / 4] |= static_cast<std::byte>(3 << (2 * (i % 4)));
      refusal(Kind::wire, [&] { decode(*codec, bad, count); });
    }
    for (const float scale : {-1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Bytes bad = good;
      store(bad.data(), scale);
      REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "scale"));
    }
  }
}

TEST_CASE("terngrad's options and shared scale are checked", "[terngrad]") {
  refusal(Kind::usage, [] { make_compressor("terngrad", {.clip = -1}); });
  refusal(Kind::usage, [] { make_compressor("terngrad", {.clip = std::nan("")}); });
  const auto codec = make_compressor("terngrad");
  for (const float shared : {0.0f, -1.0f, std::nanf("")}) {
    auto context = draw(0);
    context.shared_scale = shared;
    refusal(Kind::bug, [&] { encode(*codec, std::vector{1.0f, 2.0f}, context); });
  }
}

TEST_CASE("terngrad's bytes do not depend on whether its own scale is given", "[terngrad]") {
  for (const double clip : {0.0, kClip}) {
    const auto codec = make_compressor("terngrad", {.clip = clip});
    for (const std::size_t count : {1u, 100u, 2049u}) {
      const auto values = gaussian(count, 0.1, count);
      auto context = draw(2);
      context.shared_scale = 0.7f;
      const Bytes expected = encode(*codec, values, context);
      context.own_scale = codec->local_scale(values);
      REQUIRE(encode(*codec, values, context) == expected);
    }
  }
}
