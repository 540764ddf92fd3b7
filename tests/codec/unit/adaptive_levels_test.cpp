// SPDX-License-Identifier: Apache-2.0
// Truncated normals, adapted levels, and the families of levels and their optima.

#include <cmath>
#include <string>
#include <vector>

#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/adaptive_levels.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/levels/level_table.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

std::vector<NormalMixture> mixtures() {
  const auto of = [](std::vector<NormalComponent> parts) { return NormalMixture(parts); };
  return {of({{1, 0, 0.011}}),
          of({{1, 0, 0.3}}),
          of({{1, 0, 2.0}}),
          of({{1, 0.4, 0.02}}),
          of({{1, 0, 1e-6}, {1, 0, 0.3}}),
          of({{5, 0, 0.002}, {3, 0, 0.008}, {1, 0, 0.05}, {0.01, 0, 0.4}})};
}

Levels drawn_levels(int n, std::uint64_t seed) {
  const RandomStream random({seed, 0, 0, 0});
  Levels levels = {0};
  for (int j = 0; j < n; ++j) {
    levels.push_back(levels.back() + 0.05 +
                     static_cast<double>(random.uniform(static_cast<std::uint32_t>(j))));
  }
  for (double& level : levels) level /= levels.back();
  levels.back() = 1;
  return levels;
}

std::string usage_error(const CompressorOptions& options) {
  return refusal(Kind::usage, [&] { make_compressor("elastiquant", options); });
}

}  // namespace

TEST_CASE("the normal's tail agrees with the library's", "[adaptive]") {
  for (double x = 0; x < 37; x += 0.0137) {
    INFO(x);
    const NormalTail tail = normal_tail(x);
    CHECK(tail.above == Approx(0.5 * std::erfc(x / std::sqrt(2.0))).epsilon(1e-12).margin(0));
    CHECK(tail.density ==
          Approx(std::exp(-x * x / 2) / std::sqrt(2 * M_PI)).epsilon(1e-12).margin(0));
  }
  CHECK(normal_tail(2.4999999).above == Approx(normal_tail(2.5).above).epsilon(1e-6));
  CHECK(normal_tail(39).above == 0);
}

TEST_CASE("moments add up over cells and belong to a distribution", "[adaptive]") {
  for (const NormalMixture& mixture : mixtures()) {
    CHECK(mixture.mass(0, 1) == Approx(1).epsilon(1e-12));
    for (const double middle : {1e-5, 0.003, 0.2, 0.9}) {
      const CellMoments low = mixture.moments(0, middle), high = mixture.moments(middle, 1);
      const CellMoments whole = mixture.moments(0, 1);
      CHECK(low.mass + high.mass == Approx(1).epsilon(1e-12));
      CHECK(low.first + high.first + middle * high.mass == Approx(whole.first).epsilon(1e-10));
      CHECK(low.second + high.second + 2 * middle * high.first + middle * middle * high.mass ==
            Approx(whole.second).epsilon(1e-9));
      CHECK(mixture.mass(0, mixture.quantile(middle)) == Approx(middle).epsilon(1e-9));
    }
  }
}

TEST_CASE("a sweep never raises the variance, and its end is a stationary point", "[adaptive]") {
  for (const NormalMixture& mixture : mixtures()) {
    for (const int n : {2, 3, 7, 15}) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        Levels levels = drawn_levels(n, seed);
        double before = expected_variance(mixture, levels);
        for (int sweep = 0; sweep < 40; ++sweep) {
          sweep_levels(mixture, levels);
          const double after = expected_variance(mixture, levels);
          REQUIRE(after <= before * (1 + 1e-9) + 1e-18);
          before = after;
          for (std::size_t j = 0; j + 1 < levels.size(); ++j) REQUIRE(levels[j] < levels[j + 1]);
        }
        Levels stepped = drawn_levels(n, seed);
        const double start = expected_variance(mixture, stepped);
        for (int i = 0; i < 20; ++i) gradient_sweep_levels(mixture, stepped, 0.1);
        REQUIRE(expected_variance(mixture, stepped) <= start * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("slopes are the differences of the variance", "[adaptive]") {
  const double h = 1e-5;
  for (const NormalMixture& mixture : {mixtures()[1], mixtures()[5]}) {
    const auto variance = [&](double b) {
      return expected_variance(mixture, std::vector<double>{0, 0.02, b, 0.4, 1});
    };
    const double slope = (variance(0.1 + h) - variance(0.1 - h)) / (2 * h);
    CHECK(level_slope(mixture, 0.02, 0.1, 0.4) == Approx(slope).epsilon(1e-5));
    for (const Centre centre : {Centre::zero_level, Centre::cell}) {
      for (const int n : {2, 3, 7}) {
        const double difference = (multiplier_variance(mixture, n, 0.45 + h, centre) -
                                   multiplier_variance(mixture, n, 0.45 - h, centre)) /
                                  (2 * h);
        CHECK(multiplier_slope(mixture, n, 0.45, centre) ==
              Approx(difference).epsilon(1e-4).margin(1e-10));
      }
    }
  }
}

TEST_CASE("adapted levels are better than their start, and than random ones", "[adaptive]") {
  for (const NormalMixture& mixture : mixtures()) {
    for (const int n : {1, 3, 7, 31}) {
      const double theta = optimal_theta(n, 8192, Norm::l2);
      for (const Levels& start :
           {sinh_levels(n, theta), uniform_levels(n), exponential_levels(n, 0.5)}) {
        const Levels levels = adapted_levels(mixture, start);
        const double variance = expected_variance(mixture, levels);
        REQUIRE(levels.size() == start.size());
        REQUIRE(levels.front() == 0);
        REQUIRE(levels.back() == 1);
        REQUIRE(variance <= expected_variance(mixture, start));
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          REQUIRE(variance <= expected_variance(mixture, drawn_levels(n, seed)) * (1 + 1e-9));
        }
      }
    }
  }
}

TEST_CASE("the adapted multiplier is the best of a fine grid", "[adaptive]") {
  for (const NormalMixture& mixture : mixtures()) {
    for (const int n : {2, 3, 7}) {
      const double p = adapted_multiplier(mixture, n, 0.5);
      const double least = multiplier_variance(mixture, n, p, Centre::zero_level);
      REQUIRE(least <= multiplier_variance(mixture, n, 0.5, Centre::zero_level));
      for (const double other : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9}) {
        REQUIRE(least <= multiplier_variance(mixture, n, other, Centre::zero_level) * (1 + 1e-12));
      }
    }
    CHECK(adapted_multiplier(mixture, 1, 0.37) == 0.37);
  }
}

TEST_CASE("statistics add over parts, and empty gradients have no model", "[adaptive]") {
  const auto values = gaussian_values(5000, 3);
  GradientStatistics whole, first, second;
  CHECK_FALSE(whole.model());
  whole.add(std::vector<float>(100, -0.0f), 64, Norm::l2);
  CHECK_FALSE(whole.model());
  whole.add(values, 512, Norm::l2);
  first.add(std::span(values).first(1024), 512, Norm::l2);
  second.add(std::span(values).subspan(1024), 512, Norm::l2);
  for (std::size_t i = 0; i < whole.sums().size(); ++i) {
    CHECK(first.sums()[i] + second.sums()[i] == Approx(whole.sums()[i]).epsilon(1e-12));
  }
  whole.clear();
  CHECK_FALSE(whole.model());
}

TEST_CASE("statistics are correct for denormal, huge and infinite norms", "[adaptive]") {
  for (const Norm norm : {Norm::l2, Norm::max}) {
    for (const auto& [name, values] : special_values(513)) {
      INFO(name);
      GradientStatistics statistics;
      statistics.add(values, 64, norm);
      for (const double sum : statistics.sums()) REQUIRE(std::isfinite(sum));
      if (const auto model = statistics.model()) {
        const Levels levels = adapted_levels(model->mixture, sinh_levels(3, 1.0));
        CHECK(expected_variance(model->mixture, levels) >= 0);
        CHECK_NOTHROW(LevelTable(levels, false));
      }
    }
  }
}

// Tests rounding of real vectors, not of their model.
TEST_CASE("levels fitted to a gradient round it better than those for the worst case",
          "[adaptive]") {
  for (const int tail : {1, 3}) {
    auto values = gaussian_values(1 << 16, 9);
    for (float& v : values)
      v = std::pow(std::abs(v), static_cast<float>(tail)) * (v < 0 ? -1.0f : 1.0f);
    for (const int bits : {3, 4, 6}) {
      const int n = (1 << (bits - 1)) - 1;
      const std::size_t bucket = 8192;
      GradientStatistics statistics;
      statistics.add(values, bucket, Norm::l2);
      const Levels sinh = sinh_levels(n, optimal_theta(n, bucket, Norm::l2));
      const auto [mixture, scale] = statistics.model().value();
      const Levels fitted = adapted_levels(mixture, sinh);
      const auto measured = [&](const Levels& levels) {
        double variance = 0;
        for (std::size_t i = 0; i < values.size(); i += bucket) {
          variance += exact_variance(levels, std::span(values).subspan(i, bucket), Norm::l2);
        }
        return variance * static_cast<double>(bucket) / static_cast<double>(values.size());
      };
      INFO("tail " << tail << ", " << bits << " bits");
      CHECK(measured(fitted) < 0.9 * measured(sinh));
      const double predicted = scale * expected_variance(mixture, fitted);
      CHECK(measured(fitted) == Approx(predicted).epsilon(0.35));
    }
  }
}

TEST_CASE("exact variance <= worst case <= theorem 2 for every family", "[levels]") {
  for (const int n : {1, 3, 7, 15}) {
    for (const std::size_t d : {1u, 2u, 64u, 512u}) {
      for (const Norm norm : {Norm::l2, Norm::max}) {
        const NormalMixture mixture({{1, 0, 0.03}, {1, 0, 0.2}});
        for (const Levels& levels :
             {mulaw_levels(n, 15), mulaw_levels(n, optimal_mu(n, d + 1, norm)),
              exponential_levels(n, 0.5), drawn_levels(n, 5),
              adapted_levels(mixture, uniform_levels(n))}) {
          const double worst = worst_case_variance(levels, d, norm);
          REQUIRE(worst <= theorem2_variance(levels, d, norm) + 1e-9);
          for (std::uint64_t seed = 0; seed < 10; ++seed) {
            auto v = gaussian_values(d, seed);
            if (seed % 2 == 1) {
              for (float& x : v) x = x * x * x;
            }
            REQUIRE(exact_variance(levels, v, norm) <= worst + 1e-9);
          }
        }
      }
    }
  }
}

TEST_CASE("mu-law levels tend to uniform ones and follow their formula", "[levels]") {
  for (const int n : {1, 3, 7, 127}) {
    const Levels nearly = mulaw_levels(n, 1e-7);
    for (const double mu : {1e-3, 0.4, 0.6, 15.0, 255.0, 1e6, 1e12}) {
      const Levels levels = mulaw_levels(n, mu);
      for (int j = 0; j <= n; ++j) {
        const auto k = static_cast<std::size_t>(j);
        REQUIRE(levels[k] ==
                Approx(std::expm1(std::log1p(mu) * j / n) / mu).epsilon(1e-12).margin(1e-300));
        REQUIRE(nearly[k] == Approx(static_cast<double>(j) / n).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("optimal elasticities are no worse than a grid, in every family", "[level_design]") {
  for (const int n : {3, 7, 127}) {
    for (const std::size_t d : {64u, 8192u}) {
      for (const Norm norm : {Norm::l2, Norm::max}) {
        const auto worst = [&](LevelFamily family, double elasticity) {
          return worst_case_variance(make_levels(family, n, elasticity), d, norm);
        };
        INFO(n << " levels, " << d << " values");
        const double theta = optimal_elasticity(LevelFamily::sinh, n, d, norm);
        const double mu = optimal_elasticity(LevelFamily::mulaw, n, d, norm);
        const double least_sinh = worst(LevelFamily::sinh, theta);
        const double least_mulaw = worst(LevelFamily::mulaw, mu);
        for (double factor = 0.1; factor < 10; factor *= 1.3) {
          REQUIRE(least_sinh <= worst(LevelFamily::sinh, theta * factor) * (1 + 1e-6));
          REQUIRE(least_mulaw <= worst(LevelFamily::mulaw, mu * factor) * (1 + 1e-6));
        }
        // Sinh is optimal among all tables; mu-law, which starts linearly, is slightly worse.
        REQUIRE(least_sinh <= least_mulaw * (1 + 1e-6));
        REQUIRE(least_mulaw <= 2 * least_sinh);
        REQUIRE(optimal_elasticity(LevelFamily::adaptive, n, d, norm) == theta);
      }
    }
  }
}

TEST_CASE("the cheapest elasticity minimises (1 + variance) bits in every family",
          "[level_design]") {
  for (const int n : {3, 7}) {
    for (const Norm norm : {Norm::l2, Norm::max}) {
      for (const LevelFamily family :
           {LevelFamily::sinh, LevelFamily::mulaw, LevelFamily::exponential}) {
        const std::size_t d = 8192;
        const auto total = [&](double elasticity) {
          const GaussianCost cost = gaussian_cost(make_levels(family, n, elasticity), d, norm);
          return (1 + cost.variance) * cost.bits(Coding::automatic, d);
        };
        const double best = cheapest_elasticity(family, n, d, norm, Coding::automatic);
        const double star = optimal_elasticity(family, n, d, norm);
        INFO("family " << static_cast<int>(family) << ", " << n << " levels");
        REQUIRE(total(best) <= total(star) * (1 + 1e-9));
        for (double factor = 0.3; factor < 3; factor *= 1.07) {
          const double other = best * factor;
          if (family == LevelFamily::exponential && (other >= 0.99 || other < 0.03)) continue;
          // The cost has many local minima where the codes' lengths change.
          REQUIRE(total(best) <= total(other) * (1 + 1e-2));
        }
      }
    }
  }
}

TEST_CASE("general tables are taken as they are, or refused with the index", "[level_factories]") {
  CompressorOptions options{.bits = 3, .levels = LevelFamily::general, .table = {0.1, 0.4, 1}};
  CHECK_NOTHROW(make_compressor("elastiquant", options));
  auto coded = options;
  coded.coding = Coding::automatic;
  CHECK_NOTHROW(make_compressor("e-elastiquant", coded));
  const auto error_of = [&](std::vector<double> table) {
    options.table = std::move(table);
    return usage_error(options);
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(error_of({0.1, 1}), ContainsSubstring("3 levels") && ContainsSubstring("found 2"));
  CHECK_THAT(error_of({}), ContainsSubstring("found 0"));
  CHECK_THAT(error_of({0, 0.4, 1}), ContainsSubstring("index 0"));
  CHECK_THAT(error_of({0.4, 0.4, 1}), ContainsSubstring("index 1"));
  CHECK_THAT(error_of({0.1, std::nan(""), 1}), ContainsSubstring("index 1"));
  CHECK_THAT(error_of({0.1, 1.5, 2}), ContainsSubstring("index 1"));
  CHECK_THAT(error_of({0.1, 0.4, 0.9}), ContainsSubstring("index 2"));
}

TEST_CASE("NUQSGD has the bits that fp32 can hold", "[level_factories]") {
  for (int bits = 2; bits <= kMaxNuqsgdBits; ++bits)
    CHECK_NOTHROW(make_compressor("nuqsgd", {.bits = bits}));
  CHECK_THROWS_AS(make_compressor("nuqsgd", {.bits = kMaxNuqsgdBits + 1}), Error);
  CHECK_THROWS_AS(make_compressor("nuqsgd", {.bits = 1}), Error);
  for (int bits = 2; bits <= 8; ++bits) {
    for (const std::size_t bucket : {1u, 2u, 128u, 65536u}) {
      CHECK_NOTHROW(make_compressor("alq", {.bits = bits, .bucket_size = bucket}));
      CHECK_NOTHROW(make_compressor("amq", {.bits = bits, .bucket_size = bucket}));
    }
  }
}
