// SPDX-License-Identifier: Apache-2.0
// Level codecs by their options, and the inputs that the laws run over.

#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/levels/levels.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "support/level_oracle.hpp"

namespace eqt::test {

struct LevelCase {
  std::string name;
  std::unique_ptr<codec::Compressor> compressor;
  OracleCodec oracle;
};

/// All four codecs; every bit width, norm and family occurs.
inline std::vector<LevelCase> level_cases(codec::Coding coding, std::size_t bucket_size,
                                          codec::Rounding rounding = codec::Rounding::independent) {
  using codec::LevelFamily;
  using codec::Norm;
  std::vector<LevelCase> cases;
  for (int bits = 2; bits <= 8; ++bits) {
    const int n = (1 << (bits - 1)) - 1;
    const std::string suffix = fmt::format(" {} bits", bits);
    const codec::CompressorOptions uniform{
        .bits = bits, .bucket_size = bucket_size, .coding = coding, .rounding = rounding};
    cases.push_back({"qsgd" + suffix,
                     codec::make_compressor("qsgd", uniform),
                     {codec::uniform_levels(n), true, bits, bucket_size, Norm::l2}});
    cases.push_back({"qsgd-v" + suffix,
                     codec::make_compressor("qsgd-v", uniform),
                     {codec::uniform_levels(n), true, bits, bucket_size, Norm::max}});
    for (const Norm norm : {Norm::l2, Norm::max}) {
      const double theta = codec::optimal_theta(n, bucket_size, norm);
      cases.push_back({"elastiquant sinh" + suffix,
                       codec::make_compressor("elastiquant", {.bits = bits,
                                                              .bucket_size = bucket_size,
                                                              .norm = norm,
                                                              .levels = LevelFamily::sinh,
                                                              .coding = coding,
                                                              .rounding = rounding}),
                       {codec::sinh_levels(n, theta), false, bits, bucket_size, norm}});
    }
    const double p = bits <= 4 ? 0.5 : 0.9;
    cases.push_back({"elastiquant exponential" + suffix,
                     codec::make_compressor("elastiquant", {.bits = bits,
                                                            .bucket_size = bucket_size,
                                                            .norm = Norm::l2,
                                                            .levels = LevelFamily::exponential,
                                                            .elasticity = p,
                                                            .coding = coding,
                                                            .rounding = rounding}),
                     {codec::exponential_levels(n, p), false, bits, bucket_size, Norm::l2}});
    if (coding != codec::Coding::fixed) {
      cases.push_back({"e-elastiquant" + suffix,
                       codec::make_compressor("e-elastiquant", {.bits = bits,
                                                                .bucket_size = bucket_size,
                                                                .norm = Norm::l2,
                                                                .levels = LevelFamily::sinh,
                                                                .elasticity = 0.25,
                                                                .coding = coding,
                                                                .rounding = rounding}),
                       {codec::sinh_levels(n, 0.25), false, bits, bucket_size, Norm::l2}});
    }
  }
  return cases;
}

/// Independent N(0, 1) values (Box-Muller on the project's random words).
inline std::vector<float> gaussian_values(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double a =
        (static_cast<double>(stream.uniform(static_cast<std::uint32_t>(2 * i))) + 1e-9);
    const double b = static_cast<double>(stream.uniform(static_cast<std::uint32_t>(2 * i + 1)));
    values[i] = static_cast<float>(std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b));
  }
  return values;
}

struct NamedValues {
  std::string name;
  std::vector<float> values;
};

/// Finite values that are critical for a norm or a quotient.
inline std::vector<NamedValues> special_values(std::size_t count) {
  using Limits = std::numeric_limits<float>;
  const auto filled = [&](auto f) {
    std::vector<float> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = f(i);
    return v;
  };
  const auto alternating = [](float x) {
    return [x](std::size_t i) { return i % 2 == 0 ? x : -x; };
  };
  auto one = filled([](std::size_t) { return 0.0f; });
  if (count > 0) one[count / 2] = -3.5f;
  const auto gaussian = gaussian_values(count, 5);
  const auto scaled = [&](float x) {
    return filled([&](std::size_t i) { return x * gaussian[i]; });
  };
  return {{"zeros", filled([](std::size_t) { return 0.0f; })},
          {"minus zeros", filled([](std::size_t) { return -0.0f; })},
          {"one nonzero", one},
          {"equal", filled(alternating(0.75f))},
          {"smallest denormal", filled(alternating(Limits::denorm_min()))},
          {"denormals", scaled(0x1p-140f)},
          {"tiny", scaled(0x1p-100f)},
          {"huge", scaled(0x1p100f)},
          {"largest", filled(alternating(Limits::max()))},
          {"one largest", filled([](std::size_t i) { return i % 5 == 1 ? Limits::max() : 1.0f; })},
          {"gaussian", gaussian}};
}

inline const std::vector<std::size_t>& law_counts() {
  static const std::vector<std::size_t> counts = {0,  1,  2,  3,   7,   8,   9,
                                                  31, 32, 33, 511, 512, 513, 10007};
  return counts;
}

/// encode() into a payload of exactly its size, so that a sanitizer sees reads past its end.
inline std::vector<std::byte> encode_to_vector(const codec::Compressor& compressor,
                                               std::span<const float> values,
                                               const codec::EncodeContext& context) {
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(values.size()));
  payload.resize(compressor.encode(values, context, workspace, payload));
  payload.shrink_to_fit();
  return payload;
}

inline std::vector<float> decode_to_vector(const codec::Compressor& compressor,
                                           std::span<const std::byte> payload, std::size_t count) {
  Workspace workspace;
  std::vector<float> values(count, 0.0f);
  compressor.decode_add(payload, 1.0f, workspace, values);
  return values;
}

}  // namespace eqt::test
