// SPDX-License-Identifier: Apache-2.0
#include "model/own/arena.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace eqt::model::precision {
namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

ArenaPlan place_items(const std::vector<ArenaItem>& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return items[i].bytes; });
  ArenaPlan plan{.offsets = std::vector<std::size_t>(items.size())};
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    const std::size_t bytes = padded(items[i].bytes);
    std::size_t offset = 0;
    for (const std::size_t j : placed) {
      const bool together = items[j].first <= items[i].last && items[i].first <= items[j].last;
      if (!together) continue;
      if (plan.offsets[j] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[j] + padded(items[j].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto place = std::ranges::upper_bound(placed, offset, {},
                                                [&](std::size_t j) { return plan.offsets[j]; });
    placed.insert(place, i);
  }
  return plan;
}

}  // namespace eqt::model::precision
