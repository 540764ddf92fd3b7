// SPDX-License-Identifier: Apache-2.0
// ATOMO's parts: probabilities, thresholds, draws and spectra.

#include <bit>
#include <limits>

#include "codec/low_rank/atom_sampling.hpp"
#include "codec/low_rank/spectrum.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

/// Water filling: the largest first, each with the remaining budget.
std::vector<double> plain_probabilities(std::vector<double> lambda, double budget) {
  std::vector<std::size_t> order(lambda.size());
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    lambda[i] = std::abs(lambda[i]);
    sum += lambda[i];
  }
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return lambda[a] > lambda[b]; });
  std::vector<double> p(lambda.size());
  std::size_t next = 0;
  for (; next < order.size() && budget * lambda[order[next]] > sum; ++next) {
    p[order[next]] = 1;
    sum -= lambda[order[next]];
    budget -= 1;
  }
  for (; next < order.size(); ++next) {
    p[order[next]] = sum > 0 ? budget * lambda[order[next]] / sum : 0;
  }
  return p;
}

std::vector<double> as_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// Heavy tails: most values tiny, a few huge.
std::vector<float> heavy(std::size_t count) {
  auto values = gaussian(count, 1, count + 1);
  for (float& v : values) v = v * v * v * v * v;
  return values;
}

struct Spectrum {
  std::vector<double> singular, vectors;
};

Spectrum spectrum_of(std::span<const float> m, std::size_t columns) {
  Workspace workspace;
  Spectrum s{std::vector<double>(columns), std::vector<double>(columns * columns)};
  spectrum(m, columns, workspace, s.singular, s.vectors);
  return s;
}

}  // namespace

TEST_CASE("probabilities are those of the reference vectors", "[atomo][vectors]") {
  const char* shared = std::getenv("EQT_SHARED");
  std::vector<nlohmann::json> files = {
      read_json(EQT_SOURCE_DIR "/tests/codec/golden/vectors_low_rank.json")};
  if (shared != nullptr) {
    files.push_back(read_json(std::string(shared) + "/reference/vectors/vectors.json"));
  }
  for (const auto& vectors : files) {
    const auto& cases = vectors.at("atomo");
    const auto lambda = cases.at("lambda").get<std::vector<double>>();
    int checked = 0;
    for (const auto& [budget, row] : cases.at("cases").items()) {
      INFO("budget " << budget);
      std::vector<double> p(lambda.size());
      keep_probabilities(lambda, std::stod(budget), p);
      double sum = 0, second = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        REQUIRE(p[i] == Approx(row.at("p").at(i).get<double>()).epsilon(1e-11));
        sum += p[i];
        second += lambda[i] * lambda[i] / p[i];
      }
      REQUIRE(sum == Approx(row.at("sum_p").get<double>()));
      REQUIRE(second == Approx(row.at("second_moment").get<double>()));
      ++checked;
    }
    REQUIRE(checked == 4);
  }
}

TEST_CASE("probabilities equal those of the sorted algorithm", "[atomo]") {
  for (const std::size_t count : {1u, 2u, 5u, 64u, 1000u}) {
    for (const double budget : {0.25, 1.0, 2.0, 7.5, 40.0}) {
      for (const auto& values : {gaussian(count, 1, count), heavy(count)}) {
        const auto lambda = as_double(values);
        std::vector<double> p(count);
        keep_probabilities(lambda, budget, p);
        const auto expected = plain_probabilities(lambda, budget);
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(p[i] == Approx(std::min(1.0, expected[i])).epsilon(1e-10));
          sum += p[i];
        }
        REQUIRE(sum == Approx(std::min<double>(budget, static_cast<double>(count))));
      }
    }
  }
}

TEST_CASE("fewer atoms than the budget are all kept, none of 0 is", "[atomo]") {
  const std::vector<double> lambda = {0, 3, 0, -1e-300, 1e300};
  std::vector<double> p(5);
  keep_probabilities(lambda, 3, p);
  REQUIRE(p == std::vector<double>{0, 1, 0, 1, 1});
  keep_probabilities(lambda, 4.5, p);
  REQUIRE(p == std::vector<double>{0, 1, 0, 1, 1});
  const std::vector<double> zeros(5);
  keep_probabilities(zeros, 2, p);
  REQUIRE(p == zeros);
}

TEST_CASE("the threshold is that of the probabilities, with the same bits everywhere", "[atomo]") {
  for (const std::size_t count : kCounts) {
    if (count == 0) continue;
    for (const double density : {0.003, 0.01, 0.3, 1.0}) {
      for (const auto& values : {gaussian(count, 1e-3, count), heavy(count)}) {
        const double budget = density * static_cast<double>(count);
        std::vector<double> p(count);
        keep_probabilities(as_double(values), budget, p);
        const float expected = keep_threshold(values, budget);
        for (std::size_t i = 0; i < count; ++i) {
          const double own = std::min(1.0, std::abs(double{values[i]}) / double{expected});
          REQUIRE(own == Approx(p[i]).epsilon(1e-6));
        }
        on_every_target([&] { REQUIRE(keep_threshold(values, budget) == expected); });
      }
    }
  }
}

TEST_CASE("thresholds of zeros, denormals, huge values and NaN", "[atomo]") {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto of = [](float v, double budget) {
    return keep_threshold(std::vector<float>(100, v), budget);
  };
  REQUIRE(of(0.0f, 1) == 0);
  REQUIRE(of(-0.0f, 1) == 0);
  REQUIRE(of(kTiny, 1) == 100 * kTiny);
  REQUIRE(of(kTiny, 200) == kTiny);
  REQUIRE(of(kMax, 1) == kMax);
  on_every_target([&] {
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) REQUIRE(std::isnan(of(bad, 1)));
  });
}

TEST_CASE("draws equal the oracle's on every target", "[atomo]") {
  const RandomKey key{5, 6, 7, 8};
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 5}) {
    for (const std::size_t count : kCounts) {
      for (const float unit : {1.0f, 0x1p-130f, 0x1p120f}) {
        auto values = gaussian(count, 1, count);
        for (float& v : values) v *= unit;
        const float threshold = 1.5f * unit;
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
          const RandomStream stream(key, static_cast<std::uint32_t>((first + i) >> 32));
          const double u = stream.uniform(static_cast<std::uint32_t>(first + i));
          const double g = std::abs(double{values[i]});
          // u * threshold has 48 bits: exact here, rounded to 24 in the kernel.
          const auto product = static_cast<double>(static_cast<float>(u * 1.5)) * double{unit};
          if (g >= double{threshold} || product < g) {
            expected.push_back(static_cast<std::uint32_t>(i));
          }
        }
        on_every_target([&] {
          std::vector<std::uint32_t> found(count);
          found.resize(draw_values(values, threshold, key, nullptr, first, found));
          REQUIRE(found == expected);
        });
      }
    }
  }
}

TEST_CASE("spectra: orthonormal vectors, orthogonal images, the same bits", "[atomo]") {
  for (const std::size_t columns : {1u, 2u, 3u, 15u, 16u, 17u, 48u, 64u}) {
    for (const std::size_t rows : {1u, 7u, 32u, 33u, 200u}) {
      for (const double scale : {1e-44, 1.0, 1e37}) {
        INFO(rows << " x " << columns << " scale " << scale);
        const auto m = gaussian(rows * columns, scale, rows + columns);
        const Spectrum s = spectrum_of(m, columns);
        double captured = 0, largest = 0;
        for (const double sigma : s.singular) {
          captured += sigma * sigma;
          largest = std::max(largest, sigma);
        }
        REQUIRE(captured == Approx(squared_norm(m)).epsilon(1e-10));
        std::vector<double> image(rows * columns);
        for (std::size_t a = 0; a < columns; ++a) {
          const double* const v = &s.vectors[a * columns];
          for (std::size_t b = 0; b <= a; ++b) {
            double product = 0;
            for (std::size_t j = 0; j < columns; ++j) product += v[j] * s.vectors[b * columns + j];
            REQUIRE(std::abs(product - (a == b ? 1 : 0)) < 1e-13);
          }
          for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t j = 0; j < columns; ++j) {
              image[a * rows + i] += double{m[i * columns + j]} * v[j];
            }
          }
          for (std::size_t b = 0; b <= a; ++b) {
            double product = 0;
            for (std::size_t i = 0; i < rows; ++i)
              product += image[a * rows + i] * image[b * rows + i];
            const double expected = a == b ? s.singular[a] * s.singular[a] : 0;
            REQUIRE(std::abs(product - expected) <= 1e-9 * largest * largest);
          }
        }
      }
    }
  }
}

TEST_CASE("spectra have the same bits on every target", "[atomo]") {
  for (const std::size_t columns : {3u, 16u, 50u, 64u}) {
    const auto m = gaussian(columns * 100, 1, columns);
    const Spectrum expected = spectrum_of(m, columns);
    on_every_target([&] {
      const Spectrum found = spectrum_of(m, columns);
      REQUIRE(found.singular == expected.singular);
      REQUIRE(found.vectors == expected.vectors);
    });
  }
}

TEST_CASE("singular values of known matrices", "[atomo]") {
  // Rows (3, 0), (0, -2), (0, 0); and all ones, of rank 1.
  const std::vector<float> diagonal = {3, 0, 0, -2, 0, 0};
  const Spectrum s = spectrum_of(diagonal, 2);
  REQUIRE(s.singular == std::vector<double>{3, 2});
  Spectrum ones = spectrum_of(std::vector<float>(12 * 4, 1.0f), 4);
  std::sort(ones.singular.begin(), ones.singular.end());
  REQUIRE(ones.singular[3] == Approx(std::sqrt(48.0)));
  REQUIRE(ones.singular[2] < 1e-6);
  REQUIRE(spectrum_of(std::vector<float>(8), 4).singular == std::vector<double>(4));
  std::vector<float> bad(40, 1.0f);
  bad[37] = std::nanf("");
  REQUIRE(std::isnan(spectrum_of(bad, 4).singular[0]));
}
