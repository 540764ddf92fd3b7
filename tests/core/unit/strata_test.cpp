// SPDX-License-Identifier: Apache-2.0
#include "core/strata.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

/// The word within a stratum of width 2^32 / q that follows from the 32 random bits `word`.
std::uint32_t within(const Strata& strata, std::uint32_t word) {
  const std::uint64_t upper = std::uint64_t{word >> 16} * (strata.factor() >> 16) / 65536;
  const std::uint64_t lower = std::uint64_t{word & 0xFFFFu} * (strata.factor() & 0xFFFFu) / 65536;
  return static_cast<std::uint32_t>(upper * 65536 + lower);
}

/// All words that a rank's stream gives at a place, over a grid of random bits.
constexpr std::size_t kGrid = 256;
std::array<double, kGrid> uniforms_at(const Strata& strata, std::size_t place) {
  std::array<double, kGrid> u;
  for (std::size_t k = 0; k < kGrid; ++k) {
    const auto bits = static_cast<std::uint32_t>(k << 24 | 0x800000u);
    // The second rank of a pair takes the complement.
    const std::uint32_t word = within(strata, strata.is_second() ? ~bits : bits);
    u[k] = (strata.bases()[place] + word) * 0x1p-32;
  }
  return u;
}

double share_below(const std::array<double, kGrid>& u, double bound) {
  return static_cast<double>(std::ranges::count_if(u, [&](double x) { return x < bound; })) / kGrid;
}

/// P(u < a and u' < b) for the words of two ranks, over all places and the grid.
double joint_share(const Strata& first, const Strata& second, double a, double b) {
  double sum = 0;
  for (std::size_t place = 0; place < first.places(); ++place) {
    const auto u = uniforms_at(first, place), v = uniforms_at(second, place);
    if (first.pair() != second.pair()) {
      sum += share_below(u, a) * share_below(v, b);
      continue;
    }
    double both = 0;
    for (std::size_t k = 0; k < kGrid; ++k) both += u[k] < a && v[k] < b;
    sum += both / kGrid;
  }
  return sum / first.places();
}

constexpr std::uint32_t kRankCounts[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 18, 25, 31, 32};

}  // namespace

TEST_CASE("the strata of two ranks are all pairs of different ones, equally often", "[strata]") {
  for (const std::uint32_t ranks : kRankCounts) {
    std::vector<Strata> all;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) all.emplace_back(rank, ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      for (std::uint32_t j = 0; j < i; ++j) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, int> found;
        for (std::size_t place = 0; place < all[i].places(); ++place)
          ++found[{all[i].bases()[place], all[j].bases()[place]}];
        std::map<std::uint32_t, int> own;
        for (const auto& [pair, times] : found) {
          REQUIRE(pair.first != pair.second);
          REQUIRE(times == found.begin()->second);
          ++own[pair.first];
        }
        // q strata, each with q - 1 others; q is at least the number of ranks.
        REQUIRE(own.size() >= ranks);
        REQUIRE(own.size() <= ranks + 4);
        REQUIRE(found.size() == own.size() * (own.size() - 1));
      }
    }
  }
}

TEST_CASE("a rank's words are uniform", "[strata]") {
  for (const std::uint32_t ranks : kRankCounts) {
    for (const std::uint32_t rank : {0u, 1u, ranks - 1}) {
      const Strata strata(rank, ranks);
      for (int k = 1; k < 32; ++k) {
        const double bound = k / 32.0;
        double share = 0;
        for (std::size_t place = 0; place < strata.places(); ++place)
          share += share_below(uniforms_at(strata, place), bound);
        // The grid has steps of 1 / kGrid of a stratum, of which one holds the bound.
        REQUIRE(std::abs(share / strata.places() - bound) <= 1.0 / (kGrid * ranks) + 0x1p-16);
      }
    }
  }
}

TEST_CASE("no two ranks are below two thresholds more often than independent ones", "[strata]") {
  for (const std::uint32_t ranks : {2u, 3u, 4u, 7u, 8u}) {
    for (const std::uint32_t other : {1u, ranks - 1}) {
      const Strata first(0, ranks), second(other, ranks);
      for (int k = 1; k < 12; ++k) {
        for (int l = 1; l < 12; ++l) {
          const double a = k / 12.0, b = l / 12.0;
          const double slack = 2.0 / (kGrid * ranks) + 0x1p-15;
          REQUIRE(joint_share(first, second, a, b) <= a * b + slack);
        }
      }
    }
  }
}

TEST_CASE("two ranks take u and 1 - u", "[strata]") {
  const RandomKey keys[] = {{5, 8, 0, 3}, {5, 8, 1, 3}};
  const RandomStream first(keys[0], 0, strata_of(0, 2)), second(keys[1], 0, strata_of(1, 2));
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const double u = first.rounding_bits(i, false) * 0x1p-32;
    const double v = second.rounding_bits(i, false) * 0x1p-32;
    REQUIRE(std::abs(u + v - 1) < 0x1p-14);
    REQUIRE(first.rounding_bits(i, true) == ~first.rounding_bits(i, false));
  }
}

TEST_CASE("streams with strata are those of a group", "[strata]") {
  // Each rank's words are in the strata that all ranks have drawn together, whatever their keys'
  // rank is; another step draws others.
  for (const std::uint32_t ranks : {3u, 4u, 18u}) {
    std::vector<std::vector<std::uint32_t>> bases(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const RandomStream stream({1, 2, rank, 4}, 0, strata_of(rank, ranks));
      bases[rank].resize(500);
      stream.copy_strata(37, bases[rank]);
      std::vector<std::uint32_t> parts(500);
      for (std::size_t i = 0; i < 500; i += 50)
        stream.copy_strata(37 + static_cast<std::uint32_t>(i), std::span(parts).subspan(i, 50));
      REQUIRE(parts == bases[rank]);
    }
    for (std::size_t i = 0; i < 500; ++i) {
      for (std::uint32_t j = 1; j < ranks; ++j) REQUIRE(bases[j][i] != bases[0][i]);
    }
    const RandomStream next({1, 3, 0, 4}, 0, strata_of(0, ranks));
    std::vector<std::uint32_t> others(500);
    next.copy_strata(37, others);
    REQUIRE(others != bases[0]);
  }
}

TEST_CASE("many ranks form groups of about the same size", "[strata]") {
  for (const std::uint32_t ranks : {33u, 64u, 65u, 100u, 1000u}) {
    std::map<std::uint32_t, std::uint32_t> sizes;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Strata* const strata = strata_of(rank, ranks);
      REQUIRE(strata != nullptr);
      REQUIRE(strata->group() <= rank);
      REQUIRE(strata->pair() == rank - (strata->is_second() ? 1 : 0));
      ++sizes[strata->group()];
    }
    const auto [least, most] = std::ranges::minmax_element(
        sizes, {}, &std::pair<const std::uint32_t, std::uint32_t>::second);
    REQUIRE(most->second <= Strata::kMostRanks);
    REQUIRE(most->second - least->second <= 1);
  }
  REQUIRE(strata_of(0, 1) == nullptr);
  REQUIRE(strata_of(0, 0) == nullptr);
}
