// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/huffman.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kMaxSymbols = 128;

struct Leaf {
  std::uint64_t count;
  std::uint16_t symbol;
};

// Two queues: leaves in order of count, and inner nodes, which are created in that order. Writes
// the depth of leaf i to depths[i] and returns the largest.
int tree_depths(std::span<const Leaf> leaves, std::span<int> depths) {
  const std::size_t n = leaves.size();
  std::array<std::uint64_t, kMaxSymbols> weight{};
  std::array<std::size_t, 2 * kMaxSymbols> parent{};
  std::size_t leaf = 0, inner = 0, made = 0;
  const auto take_least = [&]() -> std::size_t {
    const bool from_leaves = leaf < n && (inner == made || leaves[leaf].count <= weight[inner]);
    return from_leaves ? leaf++ : n + inner++;
  };
  const auto count_of = [&](std::size_t node) {
    return node < n ? leaves[node].count : weight[node - n];
  };
  for (; made < n - 1; ++made) {
    const std::size_t a = take_least(), b = take_least();
    weight[made] = count_of(a) + count_of(b);
    parent[a] = parent[b] = n + made;
  }
  std::array<int, 2 * kMaxSymbols> depth{};
  int largest = 0;
  for (std::size_t node = 2 * n - 2; node-- > 0;) {
    depth[node] = depth[parent[node]] + 1;
    if (node < n) depths[node] = depth[node];
    largest = std::max(largest, depth[node]);
  }
  return largest;
}

/// The coins of one denomination, 2^-12 ... 2^-1, in order of count: leaves, and pairs of the next
/// smaller one. There are n leaves and fewer than n pairs. On the stack, because encoding must not
/// allocate.
struct Coins {
  std::array<std::uint64_t, 2 * kMaxSymbols> counts;
  std::array<bool, 2 * kMaxSymbols> is_pair;
  std::size_t size = 0;

  void add(std::uint64_t count, bool pair) {
    counts[size] = count;
    is_pair[size++] = pair;
  }
};

// Package-merge (L. Larmore, D. Hirschberg, J. ACM 37, 1990): the 2n - 2 cheapest coins of 2^-1.
// The pairs among the first coins of a row are its first pairs, whose parts are the first coins of
// the row below, and its leaves are those of the least count: so numbers alone tell which leaves a
// row adds a level to.
void limited_depths(std::span<const Leaf> leaves, std::span<int> depths) {
  const std::size_t n = leaves.size();
  std::array<Coins, kMaxHuffmanBits> rows;
  for (std::size_t level = 0; level < rows.size(); ++level) {
    Coins& row = rows[level];
    const Coins* below = level == 0 ? nullptr : &rows[level - 1];
    const std::size_t pairs = below == nullptr ? 0 : below->size / 2;
    for (std::size_t leaf = 0, pair = 0; leaf < n || pair < pairs;) {
      const std::uint64_t of_pair =
          pair < pairs ? below->counts[2 * pair] + below->counts[2 * pair + 1] : 0;
      const bool takes_leaf = pair == pairs || (leaf < n && leaves[leaf].count <= of_pair);
      row.add(takes_leaf ? leaves[leaf++].count : of_pair, !takes_leaf);
      pair += takes_leaf ? 0 : 1;
    }
  }
  std::fill(depths.begin(), depths.end(), 0);
  std::size_t taken = 2 * n - 2;
  for (std::size_t level = rows.size(); level-- > 0;) {
    const auto pairs = static_cast<std::size_t>(
        std::count(rows[level].is_pair.begin(),
                   rows[level].is_pair.begin() + static_cast<std::ptrdiff_t>(taken), true));
    for (std::size_t leaf = 0; leaf < taken - pairs; ++leaf) ++depths[leaf];
    taken = 2 * pairs;
  }
}

}  // namespace

void huffman_lengths(std::span<const std::uint64_t> counts, std::span<std::uint8_t> lengths) {
  EQT_CHECK(counts.size() == lengths.size() && counts.size() <= kMaxSymbols,
            "{} counts, {} lengths", counts.size(), lengths.size());
  std::array<Leaf, kMaxSymbols> all{};
  std::size_t used = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    lengths[i] = 0;
    if (counts[i] > 0) all[used++] = {counts[i], static_cast<std::uint16_t>(i)};
  }
  if (used == 0) return;
  const std::span<Leaf> leaves(all.data(), used);
  if (used == 1) {
    lengths[leaves[0].symbol] = 1;
    return;
  }
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol < b.symbol;
  });
  std::array<int, kMaxSymbols> depths{};
  if (tree_depths(leaves, depths) > kMaxHuffmanBits) {
    limited_depths(leaves, std::span(depths).first(used));
  }
  for (std::size_t i = 0; i < used; ++i) {
    lengths[leaves[i].symbol] = static_cast<std::uint8_t>(depths[i]);
  }
}

void canonical_words(std::span<const std::uint8_t> lengths, std::span<CodeWord> words) {
  std::uint64_t next = 0;
  for (int length = 1; length <= kMaxHuffmanBits; ++length) {
    next <<= 1;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] == length) words[i] = {next++, length};
    }
  }
}

bool is_huffman_table(std::span<const std::uint8_t> lengths) noexcept {
  std::uint32_t room = 0, used = 0;
  for (const std::uint8_t length : lengths) {
    if (length > kMaxHuffmanBits) return false;
    if (length == 0) continue;
    room += 1u << (kMaxHuffmanBits - length);
    ++used;
  }
  constexpr std::uint32_t kWhole = 1u << kMaxHuffmanBits;
  return room == kWhole || (used == 1 && room == kWhole / 2);
}

}  // namespace eqt::codec
