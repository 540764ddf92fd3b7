// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/huffman.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

std::vector<std::uint8_t> lengths_of(const std::vector<std::uint64_t>& counts) {
  std::vector<std::uint8_t> lengths(counts.size());
  huffman_lengths(counts, lengths);
  return lengths;
}

std::uint64_t cost(const std::vector<std::uint64_t>& counts,
                   const std::vector<std::uint8_t>& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) bits += counts[i] * lengths[i];
  return bits;
}

// The sum of all inner nodes' weights is the cost of Huffman's tree.
std::uint64_t optimal_cost(const std::vector<std::uint64_t>& counts) {
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap;
  for (const std::uint64_t count : counts) {
    if (count > 0) heap.push(count);
  }
  std::uint64_t total = 0;
  while (heap.size() > 1) {
    std::uint64_t sum = heap.top();
    heap.pop();
    sum += heap.top();
    heap.pop();
    total += sum;
    heap.push(sum);
  }
  return total;
}

// Least cost of a prefix code of at most `limit` bits: best[symbols left][codeword room left], with
// symbols in falling order of count and lengths rising.
std::uint64_t limited_cost(std::vector<std::uint64_t> counts, int limit) {
  std::sort(counts.begin(), counts.end(), std::greater<>());
  const std::function<std::uint64_t(std::size_t, int, std::uint64_t)> best =
      [&](std::size_t i, int length, std::uint64_t room) -> std::uint64_t {
    if (i == counts.size()) return 0;
    if (length > limit || room == 0) return UINT64_MAX / 2;
    std::uint64_t least = UINT64_MAX / 2, used = 0;
    for (std::uint64_t k = 0; k <= room && i + k <= counts.size(); ++k) {
      if (k > 0) used += counts[i + k - 1] * static_cast<std::uint64_t>(length);
      if (k == room && i + k < counts.size()) break;
      least = std::min(least, used + best(i + k, length + 1, (room - k) * 2));
    }
    return least;
  };
  return best(0, 1, 2);
}

}  // namespace

TEST_CASE("Huffman lengths have the cost of Huffman's tree", "[huffman]") {
  const RandomStream random({4, 0, 0, 0});
  std::uint32_t draw = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> counts(2 + random.bits(draw++) % 127);
    for (auto& count : counts) count = random.bits(draw++) % 50;
    counts[0] = 17;
    counts[1] = 4;
    const auto lengths = lengths_of(counts);
    REQUIRE(*std::max_element(lengths.begin(), lengths.end()) <= kMaxHuffmanBits);
    REQUIRE(cost(counts, lengths) == optimal_cost(counts));
    REQUIRE(is_huffman_table(lengths));
  }
}

TEST_CASE("skewed counts get the best code of at most 12 bits", "[huffman]") {
  // Fibonacci counts make the deepest tree.
  std::vector<std::uint64_t> counts = {1, 1};
  while (counts.size() < 16) counts.push_back(counts.back() + counts[counts.size() - 2]);
  const auto lengths = lengths_of(counts);
  REQUIRE(*std::max_element(lengths.begin(), lengths.end()) == kMaxHuffmanBits);
  REQUIRE(is_huffman_table(lengths));
  REQUIRE(cost(counts, lengths) > optimal_cost(counts));
  REQUIRE(cost(counts, lengths) == limited_cost(counts, kMaxHuffmanBits));
}

TEST_CASE("canonical words are a prefix code in order", "[huffman]") {
  const std::vector<std::uint8_t> lengths = {2, 1, 0, 3, 3};
  REQUIRE(is_huffman_table(lengths));
  std::vector<CodeWord> words(lengths.size());
  canonical_words(lengths, words);
  REQUIRE(words[1].bits == 0b0);
  REQUIRE(words[0].bits == 0b10);
  REQUIRE(words[3].bits == 0b110);
  REQUIRE(words[4].bits == 0b111);
}

TEST_CASE("a single symbol has one bit; incomplete and overfull tables are refused", "[huffman]") {
  REQUIRE(lengths_of({0, 0, 9}) == std::vector<std::uint8_t>{0, 0, 1});
  REQUIRE(is_huffman_table(std::vector<std::uint8_t>{0, 0, 1}));
  REQUIRE_FALSE(is_huffman_table(std::vector<std::uint8_t>{0, 0, 0}));
  REQUIRE_FALSE(is_huffman_table(std::vector<std::uint8_t>{0, 0, 2}));
  REQUIRE_FALSE(is_huffman_table(std::vector<std::uint8_t>{2, 2, 0}));
  REQUIRE_FALSE(is_huffman_table(std::vector<std::uint8_t>{1, 1, 1}));
  REQUIRE_FALSE(is_huffman_table(std::vector<std::uint8_t>{13, 1, 2}));
}
