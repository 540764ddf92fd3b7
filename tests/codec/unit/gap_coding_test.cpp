// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/gap_coding.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

using Indices = std::vector<std::uint32_t>;

struct Coded {
  int bits = 0;
  Bytes remainders, quotients;

  GapStreams streams(std::size_t m, std::size_t count) const {
    return {m, count, bits, remainders, quotients};
  }
};

Coded code(const Indices& indices, int bits, std::size_t count) {
  Coded coded{bits, Bytes(field_bytes(indices.size(), bits)),
              Bytes((indices.size() + (count >> bits)) / 8 + 1)};
  REQUIRE(write_remainders(indices, bits, coded.remainders.data()) == coded.remainders.size());
  coded.quotients.resize(write_quotients(indices, bits, coded.quotients.data()));
  return coded;
}

Indices read(const GapStreams& gaps) {
  Indices indices;
  check_gaps(gaps);
  for_each_index(gaps, [&](std::size_t i) { indices.push_back(static_cast<std::uint32_t>(i)); });
  return indices;
}

/// Each index with probability `density`.
Indices random_set(std::size_t count, double density, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  Indices indices;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (stream.uniform(i) < density) indices.push_back(i);
  }
  return indices;
}

std::string text_of(const Bytes& bytes) {
  std::string bits;
  for (const std::byte b : bytes) {
    for (int i = 0; i < 8; ++i) bits += (std::to_integer<int>(b) >> i & 1) != 0 ? '1' : '0';
  }
  return bits;
}

/// log2 of the number of sets of m among n.
double entropy(std::size_t n, std::size_t m) {
  const auto log_factorial = [](std::size_t x) { return std::lgamma(static_cast<double>(x) + 1); };
  return (log_factorial(n) - log_factorial(m) - log_factorial(n - m)) / std::log(2.0);
}

}  // namespace

TEST_CASE("gaps are written as the definition says", "[gaps]") {
  // Gaps 3, 0, 9 with two bits: quotients 0, 0, 2, remainders 3, 0, 1.
  const Coded coded = code({3, 4, 14}, 2, 15);
  REQUIRE(text_of(coded.remainders) == "11001000");
  REQUIRE(text_of(coded.quotients) == "11001000");
}

TEST_CASE("indices are restored with any parameter", "[gaps]") {
  const std::vector<Indices> sets{{},
                                  {0},
                                  {9999},
                                  {0, 9999},
                                  {0, 1, 2, 3},
                                  {63, 64, 127, 128},
                                  random_set(10'000, 0.01, 1),
                                  random_set(10'000, 0.5, 2),
                                  random_set(10'000, 1.0, 3)};
  for (const Indices& indices : sets) {
    for (int bits = 0; bits <= kMaxRiceBits; ++bits) {
      REQUIRE(read(code(indices, bits, 10'000).streams(indices.size(), 10'000)) == indices);
    }
  }
}

TEST_CASE("the largest counts do not overflow", "[gaps]") {
  const std::size_t count = UINT32_MAX;
  for (const Indices& indices : {Indices{0}, Indices{UINT32_MAX - 1}, Indices{0, UINT32_MAX - 1}}) {
    const int bits = rice_bits(indices, count);
    REQUIRE(bits >= 28);
    REQUIRE(read(code(indices, bits, count).streams(indices.size(), count)) == indices);
  }
}

TEST_CASE("random sets take at most 4 % more than their entropy", "[gaps]") {
  const std::size_t count = 1'000'000;
  for (const double density : {0.0005, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5}) {
    const Indices indices = random_set(count, density, 7);
    const Coded coded = code(indices, rice_bits(indices, count), count);
    const auto bits = static_cast<double>(8 * (coded.remainders.size() + coded.quotients.size()));
    INFO("density " << density << ", bits " << bits);
    REQUIRE(bits >= entropy(count, indices.size()) * 0.98);
    REQUIRE(bits <= entropy(count, indices.size()) * 1.04 + 16);
  }
}

TEST_CASE("a set of at most half of the indices takes at most one bit per index", "[gaps]") {
  const std::size_t count = 4000;
  for (std::size_t m = 1; m <= count / 2; m += 37) {
    Indices spread, first, last;
    for (std::size_t i = 0; i < m; ++i) {
      spread.push_back(static_cast<std::uint32_t>(i * (count - 1) / m));
      first.push_back(static_cast<std::uint32_t>(i));
      last.push_back(static_cast<std::uint32_t>(count - m + i));
    }
    for (const Indices& indices : {spread, first, last}) {
      const Coded coded = code(indices, rice_bits(indices, count), count);
      REQUIRE(8 * (coded.remainders.size() + coded.quotients.size()) <= count + 16);
    }
  }
}

TEST_CASE("the parameter is the best of three", "[gaps]") {
  for (const double density : {0.001, 0.01, 0.1, 0.4}) {
    const Indices indices = random_set(20'000, density, 9);
    const auto length = [&](int bits) {
      const Coded coded = code(indices, bits, 20'000);
      std::size_t zeros = text_of(coded.quotients).rfind('1') + 1;
      return zeros + indices.size() * static_cast<std::size_t>(bits);
    };
    const int chosen = rice_bits(indices, 20'000);
    for (int bits = 0; bits <= 14; ++bits) REQUIRE(length(chosen) <= length(bits));
  }
}

TEST_CASE("malformed streams are refused, and the error names the defect", "[gaps]") {
  const auto wrong = [](const Coded& coded, std::size_t m, std::size_t count) {
    return refusal(Kind::wire, [&] { read(coded.streams(m, count)); });
  };
  const auto bytes = [](std::initializer_list<int> list) {
    Bytes out;
    for (const int b : list) out.push_back(static_cast<std::byte>(b));
    return out;
  };
  // One gap of 4 * 4 + 3 = 19.
  REQUIRE(read(Coded{2, bytes({3}), bytes({0x10})}.streams(1, 20)) == Indices{19});
  REQUIRE(contains(wrong({2, bytes({3}), bytes({0x10})}, 1, 19), "indices below 19, found 19"));
  REQUIRE(contains(wrong({2, bytes({7}), bytes({0x10})}, 1, 20), "zero bits after 1 remainders"));
  REQUIRE(contains(wrong({2, bytes({3}), bytes({0x30})}, 1, 20), "1 gaps, found 2"));
  REQUIRE(contains(wrong({2, bytes({3}), bytes({0})}, 1, 20), "1 gaps, found 0"));
  REQUIRE(contains(wrong({2, bytes({3}), {}}, 1, 20), "1 gaps, found 0"));
  REQUIRE(contains(wrong({0, {}, bytes({1, 0})}, 1, 20), "a byte of zeros"));
  REQUIRE(contains(wrong({2, bytes({3}), bytes({1, 0, 0, 0})}, 1, 20), "at most 1 bytes"));
  REQUIRE(contains(wrong({31, bytes({255, 255, 255, 127}), bytes({0x80})}, 1, 20), "found"));
}
