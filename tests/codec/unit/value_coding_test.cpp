// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/value_coding.hpp"

#include <algorithm>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

Bytes coded(std::span<const float> values, const ValueCoding& coding) {
  const ValueForm form = shortest_form(values.size(), coding);
  Bytes bytes(value_bytes(values.size(), form));
  write_values(values, coding, form, bytes.data());
  return bytes;
}

std::vector<float> round_trip(std::span<const float> values, const ValueCoding& coding) {
  const ValueForm form = shortest_form(values.size(), coding);
  const Bytes bytes = coded(values, coding);
  check_values(bytes, values.size(), form);
  Workspace workspace;
  std::vector<float> out(values.size());
  const std::byte* from = as_float32(bytes, values.size(), form, workspace);
  for (float& value : out) {
    value = load<float>(from);
    from += sizeof(float);
  }
  return out;
}

}  // namespace

TEST_CASE("32 bits are the values themselves", "[values]") {
  for (const std::size_t count : kCounts) {
    const auto values = gaussian(count);
    REQUIRE(same_bits(round_trip(values, {32}), values));
  }
}

TEST_CASE("16 bits keep 11 significant bits down to 2^-28 of the largest value, for any size of it",
          "[values]") {
  for (const std::size_t count : kCounts) {
    for (const double deviation : {1e-44, 1e-38, 1e-20, 1e-6, 1.0, 1e6, 1e37}) {
      const auto values = gaussian(count, deviation, count + 1);
      const auto out = round_trip(values, {16});
      float largest = 0;
      for (const float v : values) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < count; ++i) {
        const double error = std::abs(double{out[i]} - values[i]);
        REQUIRE(error <= std::max(0x1p-11 * std::abs(double{values[i]}), 0x1p-39 * largest) +
                             0.5 * double{kDenormal});
      }
      on_every_target([&] { REQUIRE(same_bits(round_trip(values, {16}), out)); });
    }
  }
}

TEST_CASE("16 bits of powers of two and of their multiples are exact", "[values]") {
  const std::vector<float> values{kDenormal, -3 * kDenormal, 0.0f};
  REQUIRE(round_trip(values, {16}) == values);
  const std::vector<float> wide{0x1p127f, -0x1p110f, 0x1.ffcp126f, 0.0f, 0x1p103f};
  REQUIRE(round_trip(wide, {16}) == wide);
}

TEST_CASE("the largest float stays finite in 16 bits", "[values]") {
  const std::vector<float> values{kMax, -kMax, 0x1.ffep127f, 1.0f, 0x1.ffcp127f};
  REQUIRE(round_trip(values, {16}) ==
          std::vector<float>{0x1.ffcp127f, -0x1.ffcp127f, 0x1.ffcp127f, 0.0f, 0x1.ffcp127f});
}

TEST_CASE("known halves", "[values]") {
  // The largest is 3 = 1.5 * 2^1: exponent 1 - 14 = -13; 3 * 2^13 = 24576 is the half 0x7600.
  const Bytes bytes = coded(std::vector<float>{3.0f, -0.5f, 0.0f}, {16});
  REQUIRE(load<std::int16_t>(bytes.data()) == -13);
  REQUIRE(load<std::uint16_t>(bytes.data() + 2) == 0x7600);
  REQUIRE(load<std::uint16_t>(bytes.data() + 4) == 0xEC00);
  REQUIRE(load<std::uint16_t>(bytes.data() + 6) == 0);
}

TEST_CASE("invalid values are refused", "[values]") {
  const auto wrong = [](Bytes bytes, int bits) {
    const std::size_t k = bits == 32 ? bytes.size() / 4 : bytes.size() / 2 - 1;
    return refusal(Kind::wire, [&] { check_values(bytes, k, {bits}); });
  };
  Bytes words(12);
  store(words.data() + 8, std::numeric_limits<float>::infinity());
  REQUIRE(contains(wrong(words, 32), "finite"));
  Bytes halves(6);
  store(halves.data() + 4, std::uint16_t{0xF800});
  REQUIRE(contains(wrong(halves, 16), "0x7800"));
  store(halves.data() + 4, std::uint16_t{0x7C00});
  REQUIRE(contains(wrong(halves, 16), "0x7c00"));
  for (const int exponent : {-164, 114, 32767, -32768}) {
    store(halves.data(), static_cast<std::int16_t>(exponent));
    REQUIRE(contains(wrong(halves, 16), "exponent from -163 to 113"));
  }
}

TEST_CASE("values have 1 to 8, 16 or 32 bits", "[values]") {
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8, 16, 32})
    REQUIRE(checked_value_bits(bits, "topk") == bits);
  for (const int bits : {-1, 0, 9, 15, 24, 64}) {
    REQUIRE(contains(refusal(Kind::usage, [&] { checked_value_bits(bits, "topk"); }), "topk"));
  }
}

TEST_CASE("one bit is the sign and the mean magnitude", "[values]") {
  const std::vector<float> values{1.0f, -2.0f, 4.0f, -5.0f};
  // Four values of 16 bits would take 10 bytes; exponent, magnitude and signs take 5.
  REQUIRE(coded(values, {1}).size() == 5);
  REQUIRE(round_trip(values, {1}) == std::vector<float>{3.0f, -3.0f, 3.0f, -3.0f});
}

TEST_CASE("two bits are the sign and one of two means", "[values]") {
  const std::vector<float> values{1.0f, -2.0f, 10.0f, -12.0f, 1.5f, 11.0f};
  REQUIRE(round_trip(values, {2}) == std::vector<float>{1.5f, -1.5f, 11.0f, -11.0f, 1.5f, 11.0f});
}

TEST_CASE("few values are written in 16 or 32 bits where that is as short", "[values]") {
  // Bytes of k values: 4 k, 2 + 2 k, and 2 + 2 s + k bits / 8 with s magnitudes.
  REQUIRE(shortest_form(0, {4}) == ValueForm{32});
  REQUIRE(shortest_form(1, {1}) == ValueForm{32});         // 4, 4, 5
  REQUIRE(shortest_form(2, {1}) == ValueForm{1});          // 8, 6, 5
  REQUIRE(shortest_form(2, {2}) == ValueForm{16});         // 8, 6, 7
  REQUIRE(shortest_form(3, {8}) == ValueForm{16});         // 12, 8, 9
  REQUIRE(shortest_form(5, {8}) == ValueForm{8, true});    // 20, 12, 11
  REQUIRE(shortest_form(511, {4}) == ValueForm{4, true});  // below 64 values per magnitude
  REQUIRE(shortest_form(512, {4}) == ValueForm{4});
  REQUIRE(shortest_form(100'000, {5}) == ValueForm{5, true});
  for (const int bits : {16, 32}) REQUIRE(shortest_form(7, {bits}) == ValueForm{bits});
}

namespace {

/// The least squared error of `count` magnitudes for these, by dynamic programming over all
/// divisions of the sorted magnitudes into intervals.
double least_error(std::vector<float> values, std::size_t count) {
  std::sort(values.begin(), values.end(),
            [](float a, float b) { return std::abs(a) < std::abs(b); });
  const std::size_t k = values.size();
  std::vector<double> sums(k + 1), squares(k + 1);
  for (std::size_t i = 0; i < k; ++i) {
    sums[i + 1] = sums[i] + std::abs(double{values[i]});
    squares[i + 1] = squares[i] + double{values[i]} * values[i];
  }
  std::vector<double> best(k + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t m = 0; m < count; ++m) {
    auto next = best;
    for (std::size_t end = 1; end <= k; ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) {
        const double sum = sums[end] - sums[begin];
        const double cost =
            squares[end] - squares[begin] - sum * sum / static_cast<double>(end - begin);
        next[end] = std::min(next[end], best[begin] + cost);
      }
    }
    best = next;
  }
  return best[k];
}

/// Magnitudes from `least` up that fall exponentially, as those of the largest values do.
std::vector<float> exponential(std::size_t count, double least, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const double magnitude = least - std::log(1 - stream.uniform(2 * i));
    values[i] = static_cast<float>(stream.uniform(2 * i + 1) < 0.5 ? -magnitude : magnitude);
  }
  return values;
}

}  // namespace

TEST_CASE("centroids have at most 1.1 times the least error that as many magnitudes can have",
          "[values]") {
  for (const int bits : {1, 2, 3, 4}) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const auto count = static_cast<std::size_t>(64) << (bits - 1);
      for (const auto& values : {gaussian(count, 1e-3, seed), exponential(count, 4, seed),
                                 exponential(count, 0, seed)}) {
        INFO(bits << " bits, seed " << seed);
        const double error = squared_distance(values, round_trip(values, {bits}));
        const double least = least_error(values, std::size_t{1} << (bits - 1));
        // Halves of the magnitudes add 2^-22 of the squares.
        REQUIRE(error <= 1.1 * least + 0x1p-21 * squared_norm(values));
        REQUIRE(error >= least * (1 - 1e-6));
      }
    }
  }
}

TEST_CASE("every value goes to the nearest magnitude", "[values]") {
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const std::size_t count : {9u, 500u, 10'007u}) {
      for (const double deviation : {1e-44, 1e-38, 1e-20, 1.0, 1e37}) {
        const auto values = gaussian(count, deviation, count);
        const ValueForm form = shortest_form(count, {bits});
        if (!form.few()) continue;
        const Bytes bytes = coded(values, {bits});
        const Magnitudes magnitudes = read_magnitudes(bytes, form);
        REQUIRE(magnitudes.count == std::size_t{1} << (bits - 1));
        const auto out = round_trip(values, {bits});
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(std::signbit(out[i]) == std::signbit(values[i]));
          double least = std::numeric_limits<double>::infinity();
          for (const float m : magnitudes.all())
            least = std::min(least, std::abs(double{m} - std::abs(double{values[i]})));
          REQUIRE(std::abs(double{out[i]} - values[i]) == least);
        }
      }
    }
  }
}

TEST_CASE("some of the values are written again with the same magnitudes and bits", "[values]") {
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const std::size_t count : {40u, 10'007u}) {
      const auto out = round_trip(gaussian(count, 1e-3, count), {bits});
      const ValueForm form = shortest_form(count, {bits});
      if (!form.few()) continue;
      const Magnitudes magnitudes =
          read_magnitudes(coded(gaussian(count, 1e-3, count), {bits}), form);
      const ValueCoding again = {bits, &magnitudes, form.between};
      for (const std::size_t some : {1u, 2u, 3u, 17u, 40u, 1000u}) {
        const std::vector<float> part(out.begin(),
                                      out.begin() + static_cast<long>(std::min(some, count)));
        INFO(bits << " bits, " << part.size() << " of " << count);
        REQUIRE(same_bits(round_trip(part, again), part));
      }
    }
  }
}
