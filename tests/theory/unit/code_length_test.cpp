// SPDX-License-Identifier: Apache-2.0
// Code lengths: small cases by hand, bounds against the codec itself.

#include "theory/code_length.hpp"

#include <cmath>

#include "codec/catalogue.hpp"
#include "codec/entropy/elias.hpp"
#include "codec/levels/level_design.hpp"
#include "support/catch.hpp"
#include "theory/sampling.hpp"

namespace {

using namespace eqt;
using namespace eqt::theory;

LevelScheme uniform(int n, std::size_t d) { return {codec::uniform_levels(n), d, codec::Norm::l2}; }

}  // namespace

TEST_CASE("a concave hull is the least concave function above its points") {
  // (1, 0.2) lies below (0, 0) to (2, 2), (4, 2.5) below (2, 2) to (6, 3.2).
  const ConcaveHull hull({{0, 0}, {1, 0.2}, {2, 2}, {4, 2.5}, {6, 3.2}});
  REQUIRE(hull.corners().size() == 3);
  CHECK(hull(-1) == 0);
  CHECK(hull(1) == Approx(1));
  CHECK(hull(4) == Approx(2.6));
  CHECK(hull(9) == Approx(3.2));
}

TEST_CASE("omega's hull lies above every length and has the known corners") {
  const ConcaveHull hull = omega_hull(1);
  for (std::uint64_t k = 1; k < 100000; k += 1 + k / 64)
    REQUIRE(hull(static_cast<double>(k)) >= codec::omega_length(k) - 1e-12);
  const std::vector<std::pair<double, double>> known = {
      {1, 1},    {2, 3},     {4, 6},     {16, 11},   {32, 12},   {64, 13},    {256, 16},
      {512, 17}, {1024, 18}, {2048, 19}, {4096, 20}, {8192, 21}, {65536, 28}, {131072, 29}};
  // Points on a straight line may or may not be corners.
  for (const auto& [x, y] : known) CHECK(hull(x) >= y);
  CHECK(hull(16) == Approx(11));
  CHECK(hull(65536) == Approx(28));
}

TEST_CASE("entropy and Huffman lengths of shares, computed by hand") {
  const std::vector<double> dyadic = {0.5, 0.25, 0.125, 0.125}, lone = {0, 1, 0};
  CHECK(entropy_of(dyadic) == Approx(1.75));
  CHECK(huffman_bits_of(dyadic) == Approx(1.75));
  CHECK(entropy_of(lone) == 0);
  CHECK(huffman_bits_of(lone) == 1);
  const std::vector<double> skewed = {0.9, 0.05, 0.05};
  CHECK(huffman_bits_of(skewed) == Approx(1.1));
}

TEST_CASE("a bucket whose indices are certain has a certain length") {
  // (3, 4) / 5 with five levels: indices 3 and 4. W1: omega(3), then omega(1) sign omega(3),
  // omega(1) sign omega(4): 3 + 1 + 1 + 3 + 1 + 1 + 6. W2: omega(4) sign omega(5) sign: 6 + 1 + 6
  // + 1.
  const std::vector<float> v = {3, -4};
  const ExpectedBits bits = expected_bits(uniform(5, 2), v);
  CHECK(bits.sparse == Approx(32 + 16));
  CHECK(bits.dense == Approx(32 + 14));
  CHECK(bits.nonzeros == Approx(2));
  CHECK(bits.fixed == 32 + 2 * 4);
}

TEST_CASE("zeros take only the norm") {
  const ExpectedBits bits = expected_bits(uniform(7, 64), std::vector<float>(64));
  CHECK(bits.fixed == kNormBits);
  CHECK(bits.sparse == kNormBits);
  CHECK(bits.theorem3 == kNormBits);
  CHECK(bits.nonzeros == 0);
}

TEST_CASE("lengths add up over buckets, the short one with its own length") {
  const auto values = draw("normal", 300, 3);
  const LevelScheme scheme = uniform(7, 128);
  const ExpectedBits all = expected_bits_of_segment(scheme, values);
  double sparse = 0;
  for (const auto& [begin, count] : {std::pair{0, 128}, {128, 128}, {256, 44}})
    sparse += expected_bits(scheme, std::span(values).subspan(static_cast<std::size_t>(begin),
                                                              static_cast<std::size_t>(count)))
                  .sparse;
  CHECK(all.sparse == Approx(sparse));
  CHECK(all.buckets == 3);
}

TEST_CASE("published estimates, worked by hand") {
  // s = 1, d = 4: s (s + 2) = 3, (3 + 1.5 log2(2 * 5 / 3)) 3 + 32.
  CHECK(PublishedBits::qsgd_sparse(1, 4) == Approx((3 + 1.5 * std::log2(10.0 / 3)) * 3 + 32));
  CHECK(PublishedBits::qsgd_dense(100) == 312);
  // s = 1, d = 64: nbar = 4 + 16 = 20, log2(8 * 68 / 20).
  CHECK(PublishedBits::nuqsgd(1, 64) ==
        Approx(32 + 60 + 20 * std::log2(3.2) + 20 * std::log2(std::log2(27.2))));
}

TEST_CASE("exact expectations are the codec's means") {
  constexpr std::size_t kValues = 2048;
  const LevelScheme scheme = {codec::sinh_levels(7, 0.6), kValues, codec::Norm::l2};
  for (const char* source : {"normal", "sparse", "student3"}) {
    const auto values = draw(source, kValues, 5);
    const ExpectedBits expected = expected_bits(scheme, values);
    const auto codec = codec::make_compressor("elastiquant", {.bits = 4,
                                                              .bucket_size = kValues,
                                                              .norm = codec::Norm::l2,
                                                              .levels = codec::LevelFamily::sinh,
                                                              .elasticity = 0.6,
                                                              .coding = codec::Coding::elias,
                                                              .table = {}});
    const Sampled bits = sample_codec(*codec, one_segment(kValues), values, 200, 11).payload_bits;
    // The shorter container of each message, 2 bits of mode and up to 7 of padding.
    INFO(source << ": " << bits.mean << " of " << expected.sparse << " or " << expected.dense);
    const double shorter = std::min(expected.sparse, expected.dense);
    CHECK(bits.mean <= shorter + kFramingBits + 5 * bits.standard_error());
    // Choosing per message gains little where one container is clearly shorter.
    CHECK(bits.mean >= 0.97 * shorter);
  }
}
