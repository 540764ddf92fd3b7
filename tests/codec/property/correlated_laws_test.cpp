// SPDX-License-Identifier: Apache-2.0
// Laws of ranks that round against each other, for every compressor that has the option.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/integer/integer_codec.hpp"
#include "core/strata.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

using Values = std::vector<float>;

struct Case {
  std::string name;
  std::unique_ptr<Compressor> correlated, independent;
};

/// Returns options under which the compressor is unbiased and rounds at random.
CompressorOptions options_of(const CompressorRow& row) {
  CompressorOptions options;
  if (row.choose_defaults != nullptr) row.choose_defaults(options);
  options.bucket_size = 512;
  options.clip = 0;
  options.atoms = Atoms::entrywise;
  options.density = 0.2;
  return options;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& row : CompressorRow::all()) {
    if (!row->reads.has(Option::rounding)) continue;
    CompressorOptions options = options_of(*row);
    auto independent = row->make(*row, options);
    options.rounding = Rounding::correlated;
    cases.push_back({std::string(row->name), row->make(*row, options), std::move(independent)});
  }
  return cases;
}

EncodeContext context_of(const Strata* strata, std::uint32_t rank, StepId step,
                         std::uint64_t first_index = 0) {
  EncodeContext context;
  context.key = {29, step, rank, 6};
  context.first_index = first_index;
  context.strata = strata;
  return context;
}

/// The error of the mean over ranks in a step, by value; `scale` is TernGrad's.
std::vector<double> error_of_mean(const Compressor& compressor, const std::vector<Values>& values,
                                  StepId step) {
  const auto ranks = static_cast<std::uint32_t>(values.size());
  float scale = 0;
  for (const Values& own : values) scale = std::max(scale, compressor.local_scale(own));
  std::vector<double> error(values[0].size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    EncodeContext context = context_of(strata_of(rank, ranks), rank, step);
    if (compressor.properties().shared_scale) context.shared_scale = scale;
    const Values decoded = decode_to_vector(
        compressor, encode_to_vector(compressor, values[rank], context), values[rank].size());
    for (std::size_t i = 0; i < error.size(); ++i)
      error[i] += (static_cast<double>(decoded[i]) - static_cast<double>(values[rank][i])) / ranks;
  }
  return error;
}

struct Moments {
  std::vector<double> mean;  // of the error, by value
  double squares = 0;        // mean of |error|^2
};

Moments moments_over(const Compressor& compressor, const std::vector<Values>& values, int steps) {
  Moments moments{std::vector<double>(values[0].size()), 0};
  for (int step = 0; step < steps; ++step) {
    const auto error = error_of_mean(compressor, values, static_cast<StepId>(step));
    for (std::size_t i = 0; i < error.size(); ++i) {
      moments.mean[i] += error[i] / steps;
      moments.squares += error[i] * error[i] / steps;
    }
  }
  return moments;
}

/// Returns vectors with a common part, as gradients of ranks have one.
std::vector<Values> vectors_of(std::size_t ranks, std::size_t count, float common) {
  const auto shared = gaussian_values(count, 900);
  std::vector<Values> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Values own = gaussian_values(count, 901 + rank);
    for (std::size_t i = 0; i < count; ++i)
      own[i] = common * shared[i] + std::sqrt(1 - common * common) * own[i];
    all.push_back(std::move(own));
  }
  return all;
}

}  // namespace

TEST_CASE("compressors that round alone do not read strata", "[correlated]") {
  const auto values = gaussian_values(2000, 4);
  for (const Case& c : all_cases()) {
    INFO(c.name);
    const auto alone = encode_to_vector(*c.independent, values, context_of(nullptr, 1, 3));
    REQUIRE(encode_to_vector(*c.independent, values, context_of(strata_of(1, 4), 1, 3)) == alone);
    REQUIRE(encode_to_vector(*c.correlated, values, context_of(nullptr, 1, 3)) == alone);
    REQUIRE(encode_to_vector(*c.correlated, values, context_of(strata_of(1, 4), 1, 3)) != alone);
  }
}

TEST_CASE("every target draws the same strata, at every place", "[correlated]") {
  for (const Case& c : all_cases()) {
    for (const std::size_t count : {1u, 5u, 64u, 65u, 1000u, 5001u}) {
      const auto values = gaussian_values(count, count);
      for (const std::uint64_t first : {0ull, 7ull, 1025ull, (1ull << 32) - 40}) {
        INFO(c.name << ", " << count << " values from " << first << " on");
        const auto context = context_of(strata_of(2, 5), 2, 3, first);
        const auto expected = encode_to_vector(*c.correlated, values, context);
        for_each_simd_target(
            [&] { REQUIRE(encode_to_vector(*c.correlated, values, context) == expected); });
      }
    }
  }
}

TEST_CASE("the mean of ranks that round against each other is unbiased", "[correlated]") {
  constexpr int kSteps = 1500;
  for (const Case& c : all_cases()) {
    INFO(c.name);
    const auto values = vectors_of(3, 128, 0.7f);
    const Moments moments = moments_over(*c.correlated, values, kSteps);
    // The mean error of all values has kSteps times less variance; five standard deviations of a
    // sum of 128 squares, of which each has a chi-squared distribution.
    double squares = 0;
    for (const double mean : moments.mean) squares += mean * mean;
    const double expected = moments.squares / kSteps;
    REQUIRE(squares < expected * (1 + 5 * std::sqrt(2.0 / 20)));
  }
}

TEST_CASE("ranks that round against each other have a mean of less noise", "[correlated]") {
  constexpr int kSteps = 60;
  for (const Case& c : all_cases()) {
    for (const std::size_t ranks : {2u, 4u, 18u}) {
      for (const float common : {1.0f, 0.6f, 0.0f}) {
        const auto values = vectors_of(ranks, 4096, common);
        const double alone = moments_over(*c.independent, values, kSteps).squares;
        const double together = moments_over(*c.correlated, values, kSteps).squares;
        INFO(c.name << ", " << ranks << " ranks, common part " << common << ": " << together
                    << " of " << alone);
        REQUIRE(together < 1.02 * alone);
        if (common == 1.0f) REQUIRE(together < 0.7 * alone);
      }
      // The errors of opposite values must not add.
      auto values = vectors_of(ranks, 4096, 1.0f);
      for (std::size_t rank = 1; rank < ranks; rank += 2)
        for (float& v : values[rank]) v = -v;
      REQUIRE(moments_over(*c.correlated, values, kSteps).squares <
              1.02 * moments_over(*c.independent, values, kSteps).squares);
    }
  }
}

TEST_CASE("integer codes round against each other as well", "[correlated]") {
  constexpr std::uint32_t kRanks = 4;
  const auto values = gaussian_values(512, 3);
  for (const Case& c : all_cases()) {
    const auto correlated = c.correlated->integer_codec(), alone = c.independent->integer_codec();
    if (correlated == nullptr) continue;
    INFO(c.name);
    double squares[2] = {0, 0};
    for (int step = 0; step < 200; ++step) {
      for (const bool together : {false, true}) {
        const IntegerCodec& codec = together ? *correlated : *alone;
        std::vector<double> sum(values.size());
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          const float own = codec.own_scale(values);
          std::vector<std::int8_t> codes(values.size());
          codec.quantise({.own = own,
                          .shared = own,
                          .key = {1, static_cast<StepId>(step), rank, 2},
                          .first_index = 0,
                          .count = values.size(),
                          .strata = strata_of(rank, kRanks)},
                         0, values, codes);
          for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += static_cast<double>(codec.step(own)) * codes[i] / kRanks;
        }
        for (std::size_t i = 0; i < sum.size(); ++i)
          squares[together] +=
              (sum[i] - static_cast<double>(values[i])) * (sum[i] - static_cast<double>(values[i]));
      }
    }
    REQUIRE(squares[1] < 0.7 * squares[0]);
  }
}
