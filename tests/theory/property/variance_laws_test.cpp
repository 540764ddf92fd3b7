// SPDX-License-Identifier: Apache-2.0
// Over all level codecs and sources: exact <= worst case <= theorem 2, simulations around the exact
// value, and code lengths below their bounds.

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/levels/level_design.hpp"
#include "support/catch.hpp"
#include "theory/code_length.hpp"
#include "theory/sampling.hpp"
#include "theory/variance.hpp"

namespace {

using namespace eqt;
using namespace eqt::theory;
using codec::Coding;
using codec::LevelFamily;
using codec::Norm;

struct Case {
  std::string name;
  LevelScheme scheme;
  std::unique_ptr<codec::Compressor> compressor;
};

Case elastic(const std::string& name, int bits, std::size_t d, Norm norm, LevelFamily family,
             Coding coding = Coding::fixed) {
  const codec::CompressorOptions options{.bits = bits,
                                         .bucket_size = d,
                                         .norm = norm,
                                         .levels = family,
                                         .elasticity = {},
                                         .coding = coding,
                                         .table = {}};
  auto compressor =
      codec::make_compressor(coding == Coding::fixed ? "elastiquant" : "e-elastiquant", options);
  codec::Levels levels = *levels_of(*compressor);
  return {name + " " + std::to_string(bits), {std::move(levels), d, norm}, std::move(compressor)};
}

Case plain(const std::string& name, int bits, std::size_t d, Norm norm,
           std::unique_ptr<codec::Compressor> compressor) {
  codec::Levels levels = *levels_of(*compressor);
  return {name + " " + std::to_string(bits), {std::move(levels), d, norm}, std::move(compressor)};
}

std::vector<Case> all_cases(std::size_t d) {
  std::vector<Case> cases;
  for (int bits = 2; bits <= 8; ++bits) {
    cases.push_back(plain(
        "qsgd", bits, d, Norm::l2,
        codec::make_compressor("qsgd", {.bits = bits, .bucket_size = d, .coding = Coding::fixed})));
    cases.push_back(
        plain("qsgd-v", bits, d, Norm::max,
              codec::make_compressor("qsgd-v",
                                     {.bits = bits, .bucket_size = d, .coding = Coding::fixed})));
    if (bits <= codec::kMaxNuqsgdBits)
      cases.push_back(
          plain("nuqsgd", bits, d, Norm::l2,
                codec::make_compressor("nuqsgd",
                                       {.bits = bits, .bucket_size = d, .coding = Coding::fixed})));
    for (const Norm norm : {Norm::l2, Norm::max}) {
      cases.push_back(elastic("sinh", bits, d, norm, LevelFamily::sinh));
      cases.push_back(elastic("exponential", bits, d, norm, LevelFamily::exponential));
      cases.push_back(elastic("mulaw", bits, d, norm, LevelFamily::mulaw));
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("exact <= worst case <= theorem 2 and simulations hit the exact variance") {
  // Two whole buckets and a short one.
  int checked = 0;
  for (const std::size_t d : {512u, 8192u}) {
    const std::size_t count = 2 * d + d / 4 + 3;
    const auto cases = all_cases(d);
    for (const Source& source : sources()) {
      const auto values = draw(source.name, count, 21);
      for (const Case& c : cases) {
        const VarianceSums sums = level_variance(c.scheme, values);
        INFO(c.name << ", buckets of " << d << ", " << source.name);
        REQUIRE(sums.exact <= sums.worst_case * (1 + 1e-9) + 1e-12);
        REQUIRE(sums.worst_case <= sums.theorem2 * (1 + 1e-9) + 1e-12);
        const auto promised = c.compressor->variance_bound(count);
        REQUIRE(promised);
        REQUIRE(sums.worst_case_ratio() <= *promised * (1 + 1e-6));
        const Sampled found =
            sample_codec(*c.compressor, one_segment(count), values, 40, 3).variance;
        // The kernels' own bias: at most n 2^-24 of a cell (level_codec.hpp), in relative variance.
        const double margin = 1e-5 * sums.exact_ratio() + 1e-7;
        REQUIRE(std::abs(found.mean - sums.exact_ratio()) <= 5 * found.standard_error() + margin);
        ++checked;
      }
    }
  }
  std::cout << checked << " codecs and sources\n";
  CHECK(checked == 2 * 9 * (7 * 8 + 5));
}

TEST_CASE("Huffman codes keep theorem 3, entropy is below both") {
  for (const std::size_t d : {512u, 8192u}) {
    for (const Source& source : sources()) {
      const auto values = draw(source.name, d, 22);
      for (const Case& c : all_cases(d)) {
        INFO(c.name << ", buckets of " << d << ", " << source.name);
        if (c.scheme.count() > 31 && d > 512) continue;  // seconds for the gaps of 8192 values
        const ExpectedBits bits = expected_bits(c.scheme, values);
        const BitBounds bounds = bit_bounds(c.scheme, d);
        REQUIRE(bits.entropy <= bits.huffman + 1e-6);
        REQUIRE(bits.huffman <= bits.theorem3 + 1e-6);
        REQUIRE(bits.sparse <= bounds.sparse * (1 + 1e-9));
        REQUIRE(bits.dense <= bounds.dense * (1 + 1e-9));
        REQUIRE(bits.nonzeros <= most_nonzeros(c.scheme, d) * (1 + 1e-6));
      }
    }
  }
}

TEST_CASE("messages of E-ElastiQuant are within the bounds of their codings") {
  int checked = 0;
  for (const std::size_t d : {512u, 8192u}) {
    const std::size_t count = 2 * d + d / 4 + 3;
    for (const Source& source : sources()) {
      const auto values = draw(source.name, count, 23);
      for (const int bits : {3, 4, 6}) {
        for (const Norm norm : {Norm::l2, Norm::max}) {
          for (const Coding coding : {Coding::elias, Coding::huffman, Coding::automatic}) {
            const Case c = elastic("e-elastiquant", bits, d, norm, LevelFamily::sinh, coding);
            double bound = 0;
            each_bucket(values, d, [&](std::span<const float> bucket) {
              bound += *bucket_bound(c.scheme, bucket.size(), coding);
            });
            const Sampled found =
                sample_codec(*c.compressor, one_segment(count), values, 10, 4).payload_bits;
            INFO(c.name << ", buckets of " << d << ", " << source.name);
            // The bound is of the mean over all roundings.
            REQUIRE(found.mean <= bound + 5 * found.standard_error());
            ++checked;
          }
        }
      }
    }
  }
  CHECK(checked == 2 * 9 * 3 * 2 * 3);
}
