// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/largest.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "codec/sparse/compact.hpp"
#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

/// The oracle: sort everything, larger magnitude first, then lower index.
std::vector<std::uint32_t> sorted_largest(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

void require_indices(const std::optional<Selection>& found, std::span<const float> values,
                     const std::vector<std::uint32_t>& expected) {
  REQUIRE(found);
  REQUIRE(std::vector(found->indices.begin(), found->indices.end()) == expected);
  REQUIRE(found->values.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(same_bits(found->values.subspan(i, 1), values.subspan(expected[i], 1)));
  }
}

void require_selection(std::span<const float> values, std::size_t k) {
  const auto expected = sorted_largest(values, k);
  on_every_target([&] {
    Workspace workspace;
    require_indices(largest_magnitudes(values, k, workspace), values, expected);
  });
}

/// The indices of magnitudes above the threshold, by the definition.
std::vector<std::uint32_t> all_above(std::span<const float> values, float threshold) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) > threshold) indices.push_back(i);
  }
  return indices;
}

float smallest(std::span<const float> values) {
  float least = std::numeric_limits<float>::max();
  for (const float value : values) least = std::min(least, std::abs(value));
  return least;
}

}  // namespace

TEST_CASE("the selection is that of a sort, for every k", "[largest]") {
  for (const std::size_t count : {1u, 2u, 3u, 7u, 33u, 100u}) {
    for (std::size_t k = 1; k <= count; ++k) require_selection(gaussian(count, 1, count), k);
  }
  for (const std::size_t k : {1u, 10u, 100u, 1000u, 5000u, 10006u, 10007u}) {
    require_selection(gaussian(10007), k);
  }
}

TEST_CASE("equal magnitudes are taken from the lowest index on", "[largest]") {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.5f : -1.5f;
  for (const std::size_t k : {1u, 2u, 63u, 500u, 999u, 1000u}) require_selection(values, k);
  values[700] = -2.0f;
  values[3] = 0.0f;
  for (const std::size_t k : {1u, 2u, 63u, 998u, 999u, 1000u}) require_selection(values, k);
}

TEST_CASE("magnitudes that differ in the last bit are distinguished", "[largest]") {
  // Neighbouring floats, scattered: all share the first two histograms' bins in turn.
  for (const std::uint32_t step : {1u, 1u << 10, 1u << 20}) {
    std::vector<float> values(2000);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint32_t bits = 0x3F800000u - 1000 + (i * 1237u % 700) * step % 0x10000000u;
      values[i] = std::bit_cast<float>(bits | (i % 3 == 0 ? 0x80000000u : 0));
    }
    for (const std::size_t k : {1u, 17u, 300u, 1999u}) require_selection(values, k);
  }
}

TEST_CASE("denormals and zeros are ordered like other magnitudes", "[largest]") {
  std::vector<float> values(200, 0.0f);
  for (std::size_t i = 0; i < 100; ++i) {
    values[2 * i] = (i % 2 == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::denorm_min() *
                    static_cast<float>(i * 7919 % 101);
    values[2 * i + 1] = -0.0f;
  }
  for (const std::size_t k : {1u, 50u, 100u, 150u, 200u}) require_selection(values, k);
}

TEST_CASE("many values, of which a sample is taken: still the selection of a sort", "[largest]") {
  auto values = gaussian(100'003);
  for (const std::size_t k : {1u, 100u, 1000u, 10'000u, 60'000u, 100'003u}) {
    require_selection(values, k);
  }
  // Multiples of 1/8: hundreds of equals at every threshold.
  for (float& value : values) value = std::round(value * 8) / 8;
  for (const std::size_t k : {1u, 100u, 1000u, 10'000u}) require_selection(values, k);
}

TEST_CASE("an unrepresentative sample needs a second pass and does not change the result",
          "[largest]") {
  // Only the sampled positions have large values, or only the others.
  const std::size_t count = 80'000;
  const std::size_t ranges = 256;
  const std::size_t part = count / ranges;
  const auto small = gaussian(count, 1e-3);
  std::vector<bool> sampled(count);
  for (std::size_t r = 0; r < ranges; ++r) {
    const std::size_t begin = r * part + mix64(r) % (part - 16 + 1);
    for (std::size_t i = begin; i < begin + 16; ++i) sampled[i] = true;
  }
  for (const bool largest_in_sample : {true, false}) {
    auto values = small;
    for (std::size_t i = 0; i < count; ++i) {
      if (sampled[i] == largest_in_sample) values[i] += 1.0f;
    }
    const std::size_t k = 20'000;
    if (largest_in_sample) {
      Workspace workspace;
      const std::uint32_t bound = sampled_bound(values, k, workspace);
      REQUIRE(all_above(values, std::bit_cast<float>(bound)).size() < k);
    }
    require_selection(values, k);
    require_selection(values, 10);
  }
}

TEST_CASE("at least k values, and not many more, reach a bound by counting", "[largest]") {
  const auto values = gaussian(10'007);
  for (const std::size_t k : {1u, 10u, 1000u, 10'007u}) {
    const auto kept = all_above(values, std::bit_cast<float>(counted_bound(values, k) - 1));
    REQUIRE(kept.size() >= k);
    std::vector<float> largest;
    for (const std::uint32_t i : sorted_largest(values, k)) largest.push_back(values[i]);
    REQUIRE(counted_bound(values, k) + (1u << 20) > magnitude_bits(smallest(largest)));
  }
}

TEST_CASE("the rank among a few values is that of a sort, at any width", "[largest]") {
  for (const std::size_t count : {1u, 2u, 5u, 1000u}) {
    const auto values = gaussian(count, 1, 5);
    std::vector<std::uint32_t> bits;
    for (const float value : values) bits.push_back(magnitude_bits(value));
    std::sort(bits.rbegin(), bits.rend());
    for (std::size_t rank = 1; rank <= count; rank += 1 + count / 17) {
      for (const std::uint32_t width : {1u, 1u << 13, 1u << 20}) {
        for (const std::uint32_t lowest : {0u, bits.back()}) {
          Workspace workspace;
          const RankBin bin = rank_bin(values, rank, lowest, bits.front(), width, workspace);
          const std::uint32_t wanted = bits[rank - 1];
          REQUIRE(bin.lower <= wanted);
          REQUIRE(wanted - bin.lower < width);
          REQUIRE(bin.above < rank);
          REQUIRE(rank <= bin.above + bin.inside);
        }
      }
    }
  }
}

TEST_CASE("NaN or infinity anywhere gives no selection", "[largest]") {
  for (const std::size_t count : {100u, 10'007u}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::nanf("")}) {
      for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
        auto broken = gaussian(count);
        broken[i] = bad;
        on_every_target([&] {
          Workspace workspace;
          REQUIRE_FALSE(largest_magnitudes(broken, 3, workspace));
          REQUIRE_FALSE(about_largest(broken, 3, workspace));
          REQUIRE_FALSE(above_threshold(broken, 1.0f, 10, workspace));
        });
      }
    }
  }
}

TEST_CASE("about k: a threshold's selection, within 5 % above k", "[largest]") {
  for (const std::size_t count : {1u, 50u, 3000u, 100'003u}) {
    const auto values = gaussian(count, 1, 3);
    for (const double density : {0.001, 0.01, 0.1, 0.5, 1.0}) {
      const auto k =
          std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(count)));
      on_every_target([&] {
        Workspace workspace;
        const auto found = about_largest(values, k, workspace);
        REQUIRE(found);
        REQUIRE(found->indices.size() >= k);
        REQUIRE(found->indices.size() <= k + k / 20);
        const float least = smallest(found->values);
        require_indices(found, values, all_above(values, std::nextafter(least, 0.0f)));
      });
    }
  }
}

TEST_CASE("about k: equals beyond the cap are cut as top-k cuts them, zeros never sent",
          "[largest]") {
  std::vector<float> values(1000, -0.5f);
  Workspace workspace;
  require_indices(about_largest(values, 100, workspace), values, sorted_largest(values, 100));
  std::fill(values.begin(), values.end(), -0.0f);
  REQUIRE(about_largest(values, 100, workspace)->indices.empty());
  values[7] = std::numeric_limits<float>::denorm_min();
  values[990] = -3.0f;
  require_indices(about_largest(values, 100, workspace), values, {7, 990});
}

TEST_CASE("above a threshold: all of them, or the largest up to the cap", "[largest]") {
  const auto values = gaussian(10'007);
  for (const float threshold : {0.0f, 0.5f, 2.0f, 3.0f, 100.0f}) {
    const auto expected = all_above(values, threshold);
    on_every_target([&] {
      Workspace workspace;
      require_indices(above_threshold(values, threshold, 10'007, workspace), values, expected);
      if (expected.size() > 50) {
        require_indices(above_threshold(values, threshold, 50, workspace), values,
                        sorted_largest(values, 50));
      }
    });
  }
  const std::vector<float> equal{1.5f, -1.5f, 1.4f};
  Workspace workspace;
  require_indices(above_threshold(equal, 1.5f, 3, workspace), equal, {});
  require_indices(above_threshold(equal, 1.4f, 3, workspace), equal, {0, 1});
}

TEST_CASE("compaction keeps the values of the definition, around every vector width", "[largest]") {
  for (std::size_t count = 0; count < 140; ++count) {
    const auto values = gaussian(count, 1, count + 1);
    const float bound = 0.7f;
    std::uint32_t largest = 0;
    for (const float value : values) largest = std::max(largest, magnitude_bits(value));
    on_every_target([&] {
      std::vector<std::uint32_t> indices(count + kCompactSlack);
      std::vector<float> kept(count + kCompactSlack);
      const auto found =
          compact_at_least(values, magnitude_bits(bound) + 1, indices.data(), kept.data());
      indices.resize(found.count);
      REQUIRE(indices == all_above(values, bound));
      REQUIRE(found.largest == largest);
      for (std::size_t i = 0; i < indices.size(); ++i) REQUIRE(kept[i] == values[indices[i]]);
    });
  }
}
