// SPDX-License-Identifier: Apache-2.0
#include "data/partition.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::data;

namespace {

std::vector<std::size_t> sorted(std::vector<std::size_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// All ranks' epochs together have each of 0 ... samples-1 once, in shards of nearly equal size.
void require_tiling(std::size_t samples, int ranks, std::uint64_t epoch) {
  std::vector<std::size_t> all;
  std::size_t smallest = samples, largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const IidPartition partition(samples, rank, ranks, 5);
    const auto order = partition.order(epoch);
    REQUIRE(order.size() == partition.size());
    smallest = std::min(smallest, order.size());
    largest = std::max(largest, order.size());
    all.insert(all.end(), order.begin(), order.end());
  }
  REQUIRE(largest - smallest <= 1);
  REQUIRE(all.size() == samples);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < samples; ++i) REQUIRE(all[i] == i);
}

}  // namespace

TEST_CASE("even shares cover the range in order, longer ones first", "[partition]") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t count = 0; count <= 40; ++count) {
      std::size_t at = 0, previous = count;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range range = even_share(count, rank, ranks);
        const std::size_t length = range.end - range.begin;
        REQUIRE(range.begin == at);
        REQUIRE(length <= previous);
        REQUIRE(length * static_cast<std::size_t>(ranks) < count + static_cast<std::size_t>(ranks));
        REQUIRE((length + 1) * static_cast<std::size_t>(ranks) > count);
        previous = length;
        at = range.end;
      }
      REQUIRE(at == count);
    }
  }
  const Range last = even_share(10, 2, 3);  // 4 + 3 + 3
  REQUIRE((last.begin == 7 && last.end == 10));
  REQUIRE_THROWS_AS(even_share(10, 3, 3), Error);
}

TEST_CASE("IID shards cover the data set for every size and rank count", "[partition]") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t samples = 0; samples <= 40; ++samples) {
      if (samples < static_cast<std::size_t>(ranks)) {
        try {
          IidPartition(samples, 0, ranks, 5);
          FAIL("more ranks than samples was accepted");
        } catch (const Error& error) {
          REQUIRE(error.kind() == Kind::usage);
        }
      } else {
        require_tiling(samples, ranks, 0);
      }
    }
  }
  require_tiling(60000, 7, 3);
}

TEST_CASE("each epoch visits the same shard in another order", "[partition]") {
  const IidPartition partition(1000, 1, 4, 5);
  const auto first = partition.order(0), second = partition.order(1);
  REQUIRE(first != second);
  REQUIRE(sorted(first) == sorted(second));
  REQUIRE(first == partition.order(0));
}

TEST_CASE("seeds draw different shards that mix the whole set", "[partition]") {
  const auto a = IidPartition(1000, 0, 4, 5).order(0), b = IidPartition(1000, 0, 4, 6).order(0);
  REQUIRE(sorted(a) != sorted(b));
  // 250 of 1000 drawn without replacement: the mean of the indices is 499.5 +- 15.8; five of them.
  double sum = 0;
  for (const std::size_t index : a) sum += static_cast<double>(index);
  REQUIRE(std::abs(sum / 250 - 499.5) < 5 * 15.8);
}

TEST_CASE("an endless partition visits each sample equally often, whatever an epoch's length",
          "[partition]") {
  for (const std::size_t length : {1u, 3u, 5u, 7u, 10u, 23u}) {
    const EndlessPartition partition(100, 107, length, 2, 9);
    REQUIRE(partition.size() == length);
    std::vector<std::size_t> all;
    for (std::uint64_t epoch = 0; epoch < 7; ++epoch) {
      const auto order = partition.order(epoch);
      REQUIRE(order.size() == length);
      REQUIRE(order == partition.order(epoch));
      all.insert(all.end(), order.begin(), order.end());
    }
    // Every seven visits in a row are all samples, in an order of their own.
    REQUIRE(all.size() == 7 * length);
    std::set<std::vector<std::size_t>> orders;
    for (std::size_t i = 0; i < all.size(); i += 7) {
      const std::vector<std::size_t> seven(all.begin() + static_cast<std::ptrdiff_t>(i),
                                           all.begin() + static_cast<std::ptrdiff_t>(i) + 7);
      REQUIRE(sorted(seven) == std::vector<std::size_t>{100, 101, 102, 103, 104, 105, 106});
      orders.insert(seven);
    }
    REQUIRE(orders.size() >= length - length / 5);
  }
  REQUIRE(EndlessPartition(0, 50, 50, 0, 1).order(0) != EndlessPartition(0, 50, 50, 1, 1).order(0));
}
