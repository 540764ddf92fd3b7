// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/levels.hpp"

#include <cmath>
#include <vector>

#include "codec/levels/ieee_math.hpp"
#include "codec/levels/level_design.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

TEST_CASE("exp, log and sinh from basic operations agree with the library", "[ieee_math]") {
  for (double x = -600; x < 600; x += 0.37) {
    REQUIRE(ieee_exp(x) == Approx(std::exp(x)).epsilon(1e-13));
  }
  for (double x = 1e-9; x < 1e12; x *= 1.7) {
    REQUIRE(ieee_log(x) == Approx(std::log(x)).epsilon(1e-14).margin(1e-15));
    REQUIRE(ieee_asinh(x) == Approx(std::asinh(x)).epsilon(1e-12).margin(1e-15));
  }
  for (double x = 1e-12; x < 500; x *= 1.3) {
    REQUIRE(ieee_sinh(x) == Approx(std::sinh(x)).epsilon(1e-13));
  }
}

TEST_CASE("sinh levels tend to uniform and to exponential ones", "[levels]") {
  const Levels nearly_uniform = sinh_levels(7, 1e-4);
  for (std::size_t j = 0; j < 8; ++j) {
    REQUIRE(nearly_uniform[j] == Approx(static_cast<double>(j) / 7).epsilon(1e-6));
  }
  const Levels steep = sinh_levels(7, 12.0), exponential = exponential_levels(7, std::exp(-12.0));
  for (std::size_t j = 1; j < 8; ++j) REQUIRE(steep[j] == Approx(exponential[j]).epsilon(1e-9));
  // Both branches of the formula.
  const Levels below = sinh_levels(7, 299.999 / 7), above = sinh_levels(7, 300.001 / 7);
  for (std::size_t j = 1; j < 8; ++j) REQUIRE(below[j] == Approx(above[j]).epsilon(0.01));
}

TEST_CASE("cells: r on a level belongs to the cell above it, r = 1 to the last", "[levels]") {
  const Levels levels = uniform_levels(4);
  REQUIRE(find_cell(levels, 0).lower == 0);
  REQUIRE(find_cell(levels, 0.25).lower == 1);
  REQUIRE(find_cell(levels, 0.25).up == 0);
  REQUIRE(find_cell(levels, 1).lower == 3);
  REQUIRE(find_cell(levels, 1).up == 1);
  REQUIRE(find_cell(uniform_levels(1), 0.3).lower == 0);
}

TEST_CASE("no random vector is worse than the worst case, nor that than theorem 2", "[levels]") {
  for (const int n : {1, 3, 7, 15}) {
    for (const std::size_t d : {1u, 2u, 64u, 512u}) {
      for (const Norm norm : {Norm::l2, Norm::max}) {
        for (const Levels& levels : {uniform_levels(n), exponential_levels(n, 0.5),
                                     sinh_levels(n, optimal_theta(n, d + 1, norm))}) {
          const double worst = worst_case_variance(levels, d, norm);
          REQUIRE(worst <= theorem2_variance(levels, d, norm) + 1e-9);
          for (std::uint64_t seed = 0; seed < 20; ++seed) {
            auto v = gaussian_values(d, seed);
            if (seed % 2 == 1) {
              for (float& x : v) x = x * x * x;  // heavier tails
            }
            REQUIRE(exact_variance(levels, v, norm) <= worst + 1e-9);
          }
        }
      }
    }
  }
}

TEST_CASE("perturbed sinh tables are no better", "[levels]") {
  const RandomStream random({2, 0, 0, 0});
  std::uint32_t draw = 0;
  for (const int n : {3, 7}) {
    for (const Norm norm : {Norm::l2, Norm::max}) {
      const std::size_t d = 512;
      const Levels best = sinh_levels(n, optimal_theta(n, d, norm));
      const double least = worst_case_variance(best, d, norm);
      for (int round = 0; round < 100; ++round) {
        Levels other = best;
        for (std::size_t j = 1; j + 1 < other.size(); ++j) {
          const double u = static_cast<double>(random.uniform(draw++)) - 0.5;
          other[j] += 0.2 * u * (other[j + 1] - other[j]);
        }
        REQUIRE(worst_case_variance(other, d, norm) >= least - 1e-9);
      }
    }
  }
}

TEST_CASE("the cheapest elasticity has no larger cost than its neighbours", "[level_design]") {
  for (const Coding coding : {Coding::elias, Coding::huffman, Coding::automatic}) {
    for (const std::size_t d : {512u, 8192u}) {
      const auto total = [&](double theta) {
        const GaussianCost cost = gaussian_cost(sinh_levels(7, theta), d, Norm::l2);
        return (1 + cost.variance) * cost.bits(coding, d);
      };
      const double theta = cheapest_elasticity(LevelFamily::sinh, 7, d, Norm::l2, coding);
      const double star = optimal_theta(7, d, Norm::l2);
      // Recommended for Gaussian buckets: .625 theta* at 512, .75 theta* at 8192, give or take.
      REQUIRE(theta > 0.4 * star);
      REQUIRE(theta < 0.85 * star);
      for (double factor = 0.05; factor < 1.4; factor += 0.05) {
        REQUIRE(total(theta) <= total(factor * star) * (1 + 1e-6));
      }
    }
  }
}

TEST_CASE("unset elasticities build for every width, norm and family", "[level_design]") {
  for (int bits = 2; bits <= 8; ++bits) {
    for (const Norm norm : {Norm::l2, Norm::max}) {
      for (const LevelFamily family : {LevelFamily::sinh, LevelFamily::exponential}) {
        for (const std::size_t bucket : {1u, 2u, 128u, 65536u}) {
          INFO(bits << " bits, bucket " << bucket);
          CompressorOptions options;
          options.bits = bits;
          options.bucket_size = bucket;
          options.norm = norm;
          options.levels = family;
          REQUIRE_NOTHROW(make_compressor("elastiquant", options));
          options.coding = Coding::automatic;
          REQUIRE_NOTHROW(make_compressor("e-elastiquant", options));
        }
      }
    }
  }
}

TEST_CASE("options out of range are usage errors", "[level_factories]") {
  const auto kind_of = [](auto make) {
    try {
      make();
    } catch (const Error& error) {
      return error.kind();
    }
    return Kind::bug;
  };
  REQUIRE(kind_of([] { make_compressor("qsgd", {.bits = 1, .bucket_size = 512}); }) == Kind::usage);
  REQUIRE(kind_of([] { make_compressor("qsgd", {.bits = 9, .bucket_size = 512}); }) == Kind::usage);
  REQUIRE(kind_of([] { make_compressor("qsgd-v", {.bucket_size = 0}); }) == Kind::usage);
  const auto elastic_kind = [&](auto change) {
    return kind_of([&] {
      CompressorOptions options;
      change(options);
      make_compressor("elastiquant", options);
    });
  };
  REQUIRE(elastic_kind([](auto& options) { options.bucket_size = 0; }) == Kind::usage);
  REQUIRE(elastic_kind([](auto& options) { options.bits = 12; }) == Kind::usage);
  for (const double theta : {-1.0, std::nan(""), HUGE_VAL, 1e9}) {
    REQUIRE(elastic_kind([&](auto& options) { options.elasticity = theta; }) == Kind::usage);
  }
  for (const double p : {0.0, 1.0, 1.5, std::nan("")}) {
    REQUIRE(elastic_kind([&](auto& options) {
              options.levels = LevelFamily::exponential;
              options.elasticity = p;
            }) == Kind::usage);
  }
}
