// SPDX-License-Identifier: Apache-2.0
// Laws of the codecs whose table changes, and of the other new tables.

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codec/levels/adaptive_codec.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

constexpr std::size_t kBucket = 64;

struct AdaptiveCase {
  std::string name;
  std::unique_ptr<Compressor> compressor;
  AdaptiveLevelCodec* adaptive = nullptr;  // the same, or null: its table stays
  Norm norm = Norm::l2;
  Levels levels;  // of those that stay
};

AdaptiveCase adapting(std::string name, std::unique_ptr<Compressor> compressor,
                      Norm norm = Norm::l2) {
  AdaptiveLevelCodec* const adaptive = compressor->adaptive_levels();
  REQUIRE(adaptive != nullptr);
  return {std::move(name), std::move(compressor), adaptive, norm, {}};
}

std::vector<AdaptiveCase> cases(std::size_t bucket_size, Coding coding) {
  std::vector<AdaptiveCase> all;
  for (const int bits : {2, 3, 4, 8}) {
    const CompressorOptions options{.bits = bits, .bucket_size = bucket_size, .coding = coding};
    const std::string suffix = fmt::format(" {} bits", bits);
    all.push_back(adapting("alq" + suffix, make_compressor("alq", options)));
    all.push_back(adapting("amq" + suffix, make_compressor("amq", options)));
    all.push_back(adapting("elastiquant adaptive" + suffix,
                           make_compressor("elastiquant", {.bits = bits,
                                                           .bucket_size = bucket_size,
                                                           .norm = Norm::max,
                                                           .levels = LevelFamily::adaptive,
                                                           .coding = coding}),
                           Norm::max));
    const int n = (1 << (bits - 1)) - 1;
    all.push_back({"mulaw" + suffix,
                   make_compressor("elastiquant", {.bits = bits,
                                                   .bucket_size = bucket_size,
                                                   .levels = LevelFamily::mulaw,
                                                   .elasticity = 31.0,
                                                   .coding = coding}),
                   nullptr, Norm::l2, mulaw_levels(n, 31)});
    if (bits <= kMaxNuqsgdBits) {
      all.push_back(
          {"nuqsgd" + suffix,
           make_compressor("nuqsgd", {.bits = bits, .bucket_size = bucket_size, .coding = coding}),
           nullptr, Norm::l2, exponential_levels(n, 0.5)});
    }
  }
  return all;
}

void adapt_to(AdaptiveLevelCodec& codec, std::span<const float> values) {
  GradientStatistics statistics;
  codec.observe(values, statistics);
  codec.set_levels(codec.fitted_levels(statistics));
}

EncodeContext context_of(std::uint64_t step) {
  EncodeContext context;
  context.key = {17, step, 1, 9};
  return context;
}

std::string wire_error(const Compressor& compressor, std::span<const std::byte> payload,
                       std::size_t count) {
  try {
    static_cast<void>(decode_to_vector(compressor, payload, count));
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::wire);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("fitted tables are unbiased with exactly the stated variance", "[adaptive_laws]") {
  constexpr std::size_t kCount = 128;
  constexpr int kDraws = 2000;
  auto values = gaussian_values(kCount, 21);
  values[3] = 0;
  values[5] *= 20;
  for (const AdaptiveCase& c : cases(kCount, Coding::fixed)) {
    INFO(c.name);
    if (c.adaptive != nullptr) adapt_to(*c.adaptive, values);
    const Levels levels = c.adaptive != nullptr ? c.adaptive->levels() : c.levels;
    const double norm = vector_norm(values, c.norm);
    std::vector<double> mean(kCount, 0.0);
    double squares = 0, error_sum = 0, error_squares = 0;
    for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto context = context_of(static_cast<std::uint64_t>(draw));
      const auto decoded =
          decode_to_vector(*c.compressor, encode_to_vector(*c.compressor, values, context), kCount);
      double error = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const double difference = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
        mean[i] += difference / kDraws;
        error += difference * difference / squares;
      }
      error_sum += error;
      error_squares += error * error;
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const double r = std::min(1.0, std::abs(static_cast<double>(values[i])) / norm);
      const std::size_t j = find_cell(levels, r).lower;
      const double variance = norm * norm * (levels[j + 1] - r) * (r - levels[j]);
      REQUIRE(std::abs(mean[i]) <= 5 * std::sqrt(variance / kDraws) + 1e-6 * norm);
    }
    const double exact = exact_variance(levels, values, c.norm);
    const double average = error_sum / kDraws;
    const double spread = std::sqrt(std::max(0.0, error_squares / kDraws - average * average));
    REQUIRE(std::abs(average - exact) <= 5 * spread / std::sqrt(kDraws) + 1e-9);
    REQUIRE(exact <= worst_case_variance(levels, kCount, c.norm) + 1e-9);
  }
}

TEST_CASE("payloads: bounds, sizes, the same on every target", "[adaptive_laws]") {
  for (const Coding coding : {Coding::fixed, Coding::elias, Coding::huffman, Coding::automatic}) {
    for (const AdaptiveCase& c : cases(kBucket, coding)) {
      if (c.adaptive != nullptr) {
        const int n = static_cast<int>(c.adaptive->levels().size()) - 1;
        c.adaptive->set_levels(mulaw_levels(n, 63));
      }
      const Properties properties = c.compressor->properties();
      CHECK(properties.unbiased);
      CHECK(properties.random);
      CHECK(properties.granule == kBucket);
      for (const std::size_t count : {0u, 1u, 7u, 33u, 64u, 65u, 513u}) {
        for (const auto& [name, values] : special_values(count)) {
          INFO(c.name << ", " << name << ", " << count << " values");
          const auto payload = encode_to_vector(*c.compressor, values, context_of(3));
          REQUIRE(payload.size() <= c.compressor->max_payload_bytes(count));
          REQUIRE(payload.empty() == (count == 0));
          const auto decoded = decode_to_vector(*c.compressor, payload, count);
          if (count != 513) continue;
          for_each_simd_target([&] {
            REQUIRE(encode_to_vector(*c.compressor, values, context_of(3)) == payload);
            const auto again = decode_to_vector(*c.compressor, payload, count);
            REQUIRE(std::memcmp(again.data(), decoded.data(), count * sizeof(float)) == 0);
          });
        }
      }
    }
  }
}

TEST_CASE("another table's payload is refused with both fingerprints", "[adaptive_laws]") {
  const auto values = gaussian_values(200, 7);
  const auto sender = cases(kBucket, Coding::fixed);
  for (const AdaptiveCase& c : sender) {
    if (c.adaptive == nullptr || c.adaptive->levels().size() < 3) continue;
    INFO(c.name);
    const auto payload = encode_to_vector(*c.compressor, values, context_of(1));
    const std::uint32_t before = c.adaptive->fingerprint();
    adapt_to(*c.adaptive, values);
    const std::uint32_t after = c.adaptive->fingerprint();
    REQUIRE(before != after);
    const std::string error = wire_error(*c.compressor, payload, values.size());
    CHECK(error.find(fmt::format("{:08x}", before)) != std::string::npos);
    CHECK(error.find(fmt::format("{:08x}", after)) != std::string::npos);
  }
}

TEST_CASE("malformed payloads of adaptive codecs are wire errors", "[adaptive_laws]") {
  const auto values = gaussian_values(150, 7);
  for (const Coding coding : {Coding::fixed, Coding::automatic}) {
    for (const AdaptiveCase& c : cases(kBucket, coding)) {
      INFO(c.name);
      const auto payload = encode_to_vector(*c.compressor, values, context_of(1));
      for (std::size_t keep = 0; keep < payload.size(); ++keep) {
        const std::vector<std::byte> cut(payload.begin(),
                                         payload.begin() + static_cast<std::ptrdiff_t>(keep));
        REQUIRE(wire_error(*c.compressor, cut, values.size()) != "no error");
      }
      auto longer = payload;
      longer.push_back(std::byte{0});
      CHECK(wire_error(*c.compressor, longer, values.size()) != "no error");
      CHECK(wire_error(*c.compressor, payload, 0) != "no error");
      if (c.adaptive == nullptr) continue;
      for (std::size_t bit = 0; bit < 32; ++bit) {
        auto other = payload;
        other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        REQUIRE(wire_error(*c.compressor, other, values.size()).find("level table") !=
                std::string::npos);
      }
    }
  }
}

TEST_CASE("a table may be replaced while other threads encode", "[adaptive_laws]") {
  const auto codec = make_compressor("alq", {.bits = 4, .bucket_size = kBucket});
  AdaptiveLevelCodec& adaptive = *codec->adaptive_levels();
  const auto values = gaussian_values(3000, 7);
  const Levels one = adaptive.levels(), other = uniform_levels(7);
  const auto payload_one = encode_to_vector(*codec, values, context_of(1));
  adaptive.set_levels(other);
  const auto payload_other = encode_to_vector(*codec, values, context_of(1));
  bool whole = true;
  std::thread encoder([&] {
    for (int i = 0; i < 300; ++i) {
      const auto payload = encode_to_vector(*codec, values, context_of(1));
      whole = whole && (payload == payload_one || payload == payload_other);
    }
  });
  for (int i = 0; i < 300; ++i) adaptive.set_levels(i % 2 == 0 ? one : other);
  encoder.join();
  CHECK(whole);
}

TEST_CASE("fitting changes nothing without gradients, and keeps AMQ exponential",
          "[adaptive_laws]") {
  for (const AdaptiveCase& c : cases(kBucket, Coding::fixed)) {
    if (c.adaptive == nullptr) continue;
    INFO(c.name);
    const Levels before = c.adaptive->levels();
    CHECK(c.adaptive->fitted_levels(GradientStatistics()) == before);
    GradientStatistics statistics;
    c.adaptive->observe(gaussian_values(1000, 5), statistics);
    const Levels fitted = c.adaptive->fitted_levels(statistics);
    CHECK(c.adaptive->levels() == before);
    CHECK_NOTHROW(c.adaptive->set_levels(fitted));
    if (c.compressor->id() != CodecId::amq || fitted.size() < 4) continue;
    const double ratio = fitted[1] / fitted[2];
    for (std::size_t j = 2; j + 1 < fitted.size(); ++j) {
      CHECK(fitted[j] / fitted[j + 1] == Approx(ratio).epsilon(1e-12));
    }
  }
}
