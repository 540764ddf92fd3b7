// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/sparse/randomk.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

EncodeContext of_step(StepId step, std::uint32_t rank = 0, std::uint32_t slice = 5) {
  EncodeContext context;
  context.key = {11, step, rank, slice};
  return context;
}

std::vector<std::size_t> chosen_indices(std::uint64_t key, std::size_t k, std::size_t count) {
  Workspace workspace;
  std::vector<std::size_t> indices;
  for_each_chosen(choose(key, k, count, workspace), 0,
                  [&](std::size_t index) { indices.push_back(index); });
  return indices;
}

/// Where the decoded values are not zero.
std::vector<std::size_t> places(const Compressor& codec, const EncodeContext& context,
                                std::size_t count) {
  const std::vector<float> ones(count, 1.0f);
  const auto out = decode(codec, encode(codec, ones, context), count);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    if (out[i] != 0) indices.push_back(i);
  }
  return indices;
}

}  // namespace

TEST_CASE("exactly k distinct indices below the count", "[randomk]") {
  for (const std::size_t count : {1u, 2u, 63u, 64u, 65u, 1000u}) {
    for (std::size_t k = 0; k <= count; k += 1 + count / 40) {
      const auto indices = chosen_indices(k + count, k, count);
      REQUIRE(indices.size() == k);
      REQUIRE(std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<>()) ==
              indices.end());
      if (k > 0) REQUIRE(indices.back() < count);
    }
  }
}

TEST_CASE("every set of three among six is drawn equally often", "[randomk]") {
  constexpr int kDraws = 40'000;
  std::array<int, 64> seen{};
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    std::size_t set = 0;
    for (const std::size_t index : chosen_indices(mix64(key), 3, 6)) set |= std::size_t{1} << index;
    ++seen[set];
  }
  double chi_square = 0;
  constexpr double kExpected = kDraws / 20.0;
  for (std::size_t set = 0; set < 64; ++set) {
    if (std::popcount(set) != 3) {
      REQUIRE(seen[set] == 0);
      continue;
    }
    chi_square += (seen[set] - kExpected) * (seen[set] - kExpected) / kExpected;
  }
  REQUIRE(chi_square < 51);  // 19 degrees of freedom: exceeded once in 10^4
}

TEST_CASE("the indices depend on step and slice, not on the rank", "[randomk]") {
  const auto codec = make_compressor("randomk", {.density = 0.05});
  const auto first = places(*codec, of_step(3, 0), 5000);
  REQUIRE(first.size() == 250);
  REQUIRE(places(*codec, of_step(3, 7), 5000) == first);
  REQUIRE(places(*codec, of_step(4, 0), 5000) != first);
  REQUIRE(places(*codec, of_step(3, 0, 6), 5000) != first);
  EncodeContext later = of_step(3);
  later.first_index = 5000;
  REQUIRE(places(*codec, later, 5000) != first);
}

TEST_CASE("the decoded values are the encoded ones", "[randomk]") {
  for (const std::size_t count : {1u, 100u, 8192u, 20'000u}) {
    const auto values = gaussian(count);
    for (const double density : {0.001, 0.1, 0.9, 1.0}) {
      const auto codec = make_compressor("randomk", {.density = density});
      const auto out = decode(*codec, encode(*codec, values, of_step(1)), count);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (out[i] == 0) continue;
        REQUIRE(out[i] == values[i]);
        ++kept;
      }
      const auto share = static_cast<std::size_t>(density * static_cast<double>(count));
      REQUIRE(kept == std::max<std::size_t>(share, 1));
    }
  }
}

TEST_CASE("it is unbiased if scaled, and needs feedback if not", "[randomk]") {
  REQUIRE_FALSE(make_compressor("randomk")->properties().unbiased);
  REQUIRE(make_compressor("randomk")->properties().needs_feedback);
  REQUIRE(make_compressor("randomk", {.unbiased = true})->properties().unbiased);
  REQUIRE_FALSE(make_compressor("randomk", {.unbiased = true})->properties().needs_feedback);
  refusal(Kind::usage, [] { make_compressor("randomk", {.density = 0}); });
  refusal(Kind::usage, [] { make_compressor("randomk", {.value_bits = 31}); });
  REQUIRE_FALSE(make_compressor("randomk", {.value_bits = 4})->properties().unbiased);
  refusal(Kind::usage, [] { make_compressor("randomk", {.value_bits = 4, .unbiased = true}); });
}

TEST_CASE("random-k agrees with the reference vectors", "[randomk][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
    const auto& rows = vectors.at("contraction");
    const auto check = [&](const Compressor& codec, double expected) {
      constexpr int kDraws = 20'000;
      double sum = 0, squares = 0;
      for (StepId step = 0; step < kDraws; ++step) {
        const auto out = decode(codec, encode(codec, v8, of_step(step)), v8.size());
        const double ratio = squared_distance(v8, out) / squared_norm(v8);
        sum += ratio / kDraws;
        squares += ratio * ratio / kDraws;
      }
      REQUIRE(std::abs(sum - expected) < 5 * std::sqrt((squares - sum * sum) / kDraws));
    };
    check(*make_compressor("randomk", {.density = 0.25}),
          rows.at("randk_biased_k2").at("expected_residual_ratio").get<double>());
    check(*make_compressor("randomk", {.density = 0.25, .unbiased = true}),
          rows.at("randk_unbiased_k2").at("variance_ratio_exact").get<double>());
  });
}

TEST_CASE("a value that scaling makes infinite is refused", "[randomk]") {
  const std::vector<float> values(100, std::numeric_limits<float>::max());
  REQUIRE_NOTHROW(encode(*make_compressor("randomk"), values));
  REQUIRE(
      contains(refusal(Kind::diverged,
                       [&] { encode(*make_compressor("randomk", {.unbiased = true}), values); }),
               "unbiased"));
}

TEST_CASE("malformed random-k payloads are rejected, and the error names the defect", "[randomk]") {
  const auto codec = make_compressor("randomk", {.density = 0.1});
  const Bytes good = encode(*codec, gaussian(100), of_step(2));
  const auto message = [&](const Bytes& payload, std::size_t count) {
    return refusal(Kind::wire, [&] { decode(*codec, payload, count); });
  };
  const auto flipped = [&](std::size_t at) {
    Bytes payload = good;
    payload.at(at) ^= std::byte{1};
    return payload;
  };
  REQUIRE(good.size() == 17 + 40);
  REQUIRE(contains(message({}, 100), "at least 17 bytes"));
  REQUIRE(contains(message(Bytes(16), 100), "at least 17 bytes"));
  REQUIRE(contains(message(Bytes(17), 100), "1 to 100 values, found 0"));
  REQUIRE(contains(message(good, 9), "1 to 9 values, found 10"));
  for (const std::size_t at : {0u, 5u, 12u, 13u, 16u}) {
    REQUIRE(contains(message(flipped(at), 100), "check"));
  }
  REQUIRE(contains(message(flipped(4), 100), "found the form 0x21"));
  REQUIRE(contains(message(good, 101), "check"));
  Bytes longer = good;
  longer.push_back(std::byte{0});
  REQUIRE(contains(message(longer, 100), "57 bytes for 10 values, found 58"));
  Bytes infinite = good;
  store(&infinite[17], std::numeric_limits<float>::infinity());
  REQUIRE(contains(message(infinite, 100), "finite"));
  refusal(Kind::wire, [&] { decode(*codec, good, 0); });
}
