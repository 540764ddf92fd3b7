// SPDX-License-Identifier: Apache-2.0
// Level tables of codecs, and the distance of the worst vectors from the bounds.

#include <cmath>

#include "codec/catalogue.hpp"
#include "codec/levels/level_design.hpp"
#include "support/catch.hpp"
#include "theory/sampling.hpp"
#include "theory/variance.hpp"

namespace {

using namespace eqt;
using namespace eqt::theory;
using codec::Norm;

}  // namespace

TEST_CASE("a codec's table is that of the family, in float32") {
  const auto qsgd = levels_of(*codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 512}));
  REQUIRE(qsgd);
  REQUIRE(qsgd->size() == 8);
  for (std::size_t j = 0; j < 8; ++j)
    CHECK((*qsgd)[j] == static_cast<double>(static_cast<float>(static_cast<double>(j) / 7)));
  const auto alq = levels_of(*codec::make_compressor("alq", {.bits = 3}));
  REQUIRE(alq);
  CHECK(alq->size() == 4);
  CHECK_FALSE(levels_of(*codec::make_compressor("natural")));
  CHECK_FALSE(levels_of(*codec::make_compressor("none")));
}

TEST_CASE("fixed codes have the bits that codecs give them") {
  for (int bits = 2; bits <= 8; ++bits) {
    const int n = (1 << (bits - 1)) - 1;
    CHECK(LevelScheme{codec::uniform_levels(n), 1, Norm::l2}.fixed_bits() == bits);
  }
}

TEST_CASE("bounds of powers of two, worked by hand") {
  // R = 2, (R - 1)^2 / (4 R) = 1/8; A = 2^-3 * 16 = 2, phi = 1.
  const LevelBounds bounds = level_bounds({codec::exponential_levels(4, 0.5), 256, Norm::l2});
  CHECK(bounds.ratio == Approx(2));
  CHECK(bounds.smallest == Approx(2));
  CHECK(bounds.phi == Approx(1));
  CHECK(bounds.theorem2 == Approx(1.125));
  CHECK(bounds.worst_case <= bounds.theorem2);
}

TEST_CASE("the worst vector reaches the bound: exactly under the maximum norm, nearly under L2") {
  for (const std::size_t d : {16u, 100u, 512u, 8192u}) {
    for (const int n : {1, 3, 7, 15, 127}) {
      for (const auto& levels :
           {codec::uniform_levels(n), codec::exponential_levels(n, n > 15 ? 0.9 : 0.5),
            codec::sinh_levels(n, codec::optimal_theta(n, d, Norm::l2))}) {
        for (const Norm norm : {Norm::l2, Norm::max}) {
          const LevelScheme scheme{levels, d, norm};
          const AdversarialVector v = adversarial_vector(scheme);
          const double worst = level_bounds(scheme).worst_case;
          INFO(n << " levels, " << d << " values: " << v.ratio << " of " << worst);
          REQUIRE(v.heads + v.bodies == d);
          CHECK(v.ratio <= worst * (1 + 1e-9));
          // Under L2 the difference is due to integer counts of few values.
          CHECK(v.ratio >= worst * (norm == Norm::max ? 1 - 1e-7 : d >= 512 ? 0.97 : 0.8));
          const auto squares = static_cast<double>(v.heads) * v.head * v.head +
                               static_cast<double>(v.bodies) * v.body * v.body;
          if (norm == Norm::l2) CHECK(squares == Approx(1));
          CHECK(level_variance(scheme, v.values()).exact_ratio() ==
                Approx(v.ratio).epsilon(1e-4).margin(1e-9));
        }
      }
    }
  }
}

TEST_CASE("natural compression between powers of two, worked by hand") {
  // 1.5 lies between 1 and 2: 0.5 * 0.5; 3 between 2 and 4: 1; 4 is exact. 1.25 / (2.25 + 9 + 16).
  const std::vector<float> v = {1.5f, -3, 4, 0};
  CHECK(natural_variance(v) == Approx(1.25 / 27.25));
  // The worst point is 4/3 of a power of two: 1/8.
  CHECK(natural_variance(std::vector<float>{4.0f / 3}) == Approx(0.125));
}

TEST_CASE("sources draw the same values for the same seed, from their distributions") {
  for (const Source& source : sources()) {
    INFO(source.name);
    const auto values = draw(source.name, 20000, 4);
    CHECK(values == draw(source.name, 20000, 4));
    if (source.name != "one-hot") CHECK(values != draw(source.name, 20000, 5));
    CHECK(draw(source.name, 1, 1).size() == 1);
    CHECK(draw(source.name, 0, 1).empty());
  }
  const auto moments = [](const char* name) {
    const auto values = draw(name, 200000, 9);
    double first = 0, second = 0;
    for (const double v : values) {
      first += v / 200000;
      second += v * v / 200000;
    }
    return std::pair{first, second};
  };
  // Means and mean squares of the distributions, to five standard errors.
  const auto check = [&](const char* name, double mean, double square, double fourth) {
    const auto [first, second] = moments(name);
    INFO(name);
    CHECK(std::abs(first - mean) <= 5 * std::sqrt((square - mean * mean) / 200000));
    CHECK(std::abs(second - square) <= 5 * std::sqrt((fourth - square * square) / 200000));
  };
  check("normal", 0, 1, 3);
  check("laplace", 0, 2, 24);
  check("uniform", 0, 1.0 / 3, 0.2);
  check("exponential", 1, 2, 24);
  std::size_t nonzeros = 0;
  for (const float v : draw("sparse", 20000, 4)) nonzeros += v != 0;
  CHECK(nonzeros == 200);
}
