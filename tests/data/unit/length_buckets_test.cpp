// SPDX-License-Identifier: Apache-2.0
#include "data/partition.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "support/catch.hpp"

using namespace eqt::data;

namespace {

using Order = std::vector<std::size_t>;

constexpr std::size_t kSamples = 1000, kBatch = 8;
constexpr std::uint64_t kSeed = 3;

/// Sample i has the length 37 i mod 101.
class Lengths final : public Dataset {
 public:
  std::size_t size() const override { return kSamples; }
  std::vector<ArraySpec> inputs() const override { return {}; }
  std::optional<ArraySpec> target() const override { return {}; }
  std::size_t length(std::size_t sample) const override { return 37 * sample % 101; }
  void read(std::span<const std::size_t>, const std::optional<AugmentKey>&, Batch&) const override {
  }
};

std::unique_ptr<Partition> shard(int rank) {
  return std::make_unique<ReshuffledPartition>(kSamples, rank, 2, kSeed);
}

Order sorted(Order order) {
  std::ranges::sort(order);
  return order;
}

std::size_t spread(const Lengths& set, const Order& order, std::size_t batch) {
  std::size_t least = SIZE_MAX, most = 0;
  for (std::size_t i = batch * kBatch; i < (batch + 1) * kBatch; ++i) {
    least = std::min(least, set.length(order[i]));
    most = std::max(most, set.length(order[i]));
  }
  return most - least;
}

}  // namespace

TEST_CASE("buckets by length keep the samples of a shard and of a window", "[buckets]") {
  const Lengths set;
  const LengthBuckets buckets(shard(0), set, kBatch, kSeed);
  for (const std::uint64_t epoch : {0u, 1u, 7u}) {
    const Order before = shard(0)->order(epoch), after = buckets.order(epoch);
    REQUIRE(after.size() == before.size());
    const std::size_t window = kBatch * LengthBuckets::kWindow;
    for (std::size_t at = 0; at < before.size(); at += window) {
      const std::size_t end = std::min(at + window, before.size() / kBatch * kBatch);
      if (end <= at) break;
      const auto part = [&](const Order& order) {
        return sorted({order.begin() + static_cast<std::ptrdiff_t>(at),
                       order.begin() + static_cast<std::ptrdiff_t>(end)});
      };
      CHECK(part(after) == part(before));
    }
    const auto rest = static_cast<std::ptrdiff_t>(before.size() / kBatch * kBatch);
    CHECK(Order(after.begin() + rest, after.end()) == Order(before.begin() + rest, before.end()));
    CHECK(after == LengthBuckets(shard(0), set, kBatch, kSeed).order(epoch));
  }
  CHECK(buckets.order(0) != buckets.order(1));
}

TEST_CASE("batches have samples of about the same length, on all ranks at once", "[buckets]") {
  const Lengths set;
  const LengthBuckets first(shard(0), set, kBatch, kSeed), second(shard(1), set, kBatch, kSeed);
  const Order mine = first.order(0), others = second.order(0), plain = shard(0)->order(0);
  std::size_t bucketed = 0, unordered = 0, apart = 0;
  const std::size_t batches = LengthBuckets::kWindow;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    bucketed += spread(set, mine, batch);
    unordered += spread(set, plain, batch);
    const std::size_t a = set.length(mine[batch * kBatch]), b = set.length(others[batch * kBatch]);
    apart += a > b ? a - b : b - a;
  }
  CHECK(bucketed * 10 < unordered);
  CHECK(apart < 10 * batches);
  // The batches themselves are in no order of length.
  std::size_t rises = 0;
  for (std::size_t batch = 1; batch < batches; ++batch)
    if (set.length(mine[batch * kBatch]) > set.length(mine[(batch - 1) * kBatch])) ++rises;
  CHECK(rises > batches / 4);
  CHECK(rises < 3 * batches / 4);
}
