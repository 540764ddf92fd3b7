// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/huffman.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

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

struct Package {
  std::uint64_t count;
  std::array<std::uint8_t, kMaxSymbols> uses;  // of each leaf
};

/// On the stack, because encoding must not allocate. A denomination has n coins and at most n
/// packages of the next smaller one.
struct Packages {
  using value_type = Package;
  std::array<Package, 2 * kMaxSymbols> items;
  std::size_t size = 0;

  void push_back(const Package& package) { items[size++] = package; }
  const Package* begin() const { return items.data(); }
  const Package* end() const { return items.data() + size; }
};

// Package-merge: the n - 1 cheapest coins of each denomination 2^-12 ... 2^-1 are packed in pairs.
void limited_depths(std::span<const Leaf> leaves, std::span<int> depths) {
  const std::size_t n = leaves.size();
  Packages singles, row, packed, merged;
  for (std::size_t i = 0; i < n; ++i) {
    Package coin{.count = leaves[i].count, .uses = {}};
    coin.uses[i] = 1;
    singles.push_back(coin);
  }
  for (int level = 0; level < kMaxHuffmanBits; ++level) {
    packed.size = 0;
    for (std::size_t i = 0; i + 1 < row.size; i += 2) {
      Package pair = row.items[i];
      pair.count += row.items[i + 1].count;
      for (std::size_t k = 0; k < n; ++k) {
        pair.uses[k] = static_cast<std::uint8_t>(pair.uses[k] + row.items[i + 1].uses[k]);
      }
      packed.push_back(pair);
    }
    merged.size = 0;
    std::merge(singles.begin(), singles.end(), packed.begin(), packed.end(),
               std::back_inserter(merged),
               [](const Package& a, const Package& b) { return a.count < b.count; });
    row = merged;
  }
  std::fill(depths.begin(), depths.end(), 0);
  for (std::size_t i = 0; i < 2 * n - 2; ++i) {
    for (std::size_t k = 0; k < n; ++k) depths[k] += row.items[i].uses[k];
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
