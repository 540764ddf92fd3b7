// SPDX-License-Identifier: Apache-2.0
#include "data/partition.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/dataset.hpp"
#include "data/partition_plan.hpp"

namespace eqt::data {

Range even_share(std::size_t count, int rank, int ranks) {
  EQT_CHECK(ranks >= 1 && rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t shorter = count / static_cast<std::size_t>(ranks);
  const std::size_t longer_runs = count % static_cast<std::size_t>(ranks);
  const std::size_t begin = r * shorter + std::min(r, longer_runs);
  return {begin, begin + shorter + (r < longer_runs ? 1 : 0)};
}

std::vector<std::size_t> ShardPartition::order(std::uint64_t epoch) const {
  auto order = random_permutation(
      make_key(seed_, epoch, static_cast<std::uint32_t>(rank_), RandomPurpose::shuffle),
      shard_.size());
  for (std::size_t& place : order) place = shard_[place];
  return order;
}

IidPartition::IidPartition(std::size_t samples, int rank, int ranks, std::uint64_t seed)
    : ShardPartition(plan_iid(samples, ranks, seed).shards.at(static_cast<std::size_t>(rank)), rank,
                     seed) {}

ReshuffledPartition::ReshuffledPartition(std::size_t samples, int rank, int ranks,
                                         std::uint64_t seed)
    : samples_(samples),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      seed_(seed) {
  EQT_CHECK(ranks >= 1 && rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  require_sample_each(samples, ranks);
}

std::size_t ReshuffledPartition::size() const { return (samples_ - rank_ + ranks_ - 1) / ranks_; }

std::vector<std::size_t> ReshuffledPartition::order(std::uint64_t epoch) const {
  const auto all =
      random_permutation(make_key(seed_, epoch, 0, RandomPurpose::partition), samples_);
  std::vector<std::size_t> own;
  own.reserve(size());
  for (std::size_t i = rank_; i < samples_; i += ranks_) own.push_back(all[i]);
  return own;
}

EndlessPartition::EndlessPartition(std::size_t first, std::size_t end, std::size_t length, int rank,
                                   std::uint64_t seed)
    : first_(first), samples_(end - first), length_(length), rank_(rank), seed_(seed) {
  EQT_CHECK(first < end && length >= 1, "samples {} to {}, {} an epoch", first, end, length);
}

std::vector<std::size_t> EndlessPartition::order_for(std::uint64_t epoch,
                                                     std::size_t length) const {
  std::vector<std::size_t> order;
  order.reserve(length);
  std::uint64_t permutation = epoch * length / samples_;
  std::size_t place = static_cast<std::size_t>(epoch * length % samples_);
  for (; order.size() < length; ++permutation, place = 0) {
    const auto all = random_permutation(
        make_key(seed_, permutation, static_cast<std::uint32_t>(rank_), RandomPurpose::shuffle),
        samples_);
    for (; place < samples_ && order.size() < length; ++place) order.push_back(first_ + all[place]);
  }
  return order;
}

LengthBuckets::LengthBuckets(std::unique_ptr<Partition> partition, const Dataset& set,
                             std::size_t batch_size, std::uint64_t seed)
    : partition_(std::move(partition)), set_(set), batch_size_(batch_size), seed_(seed) {
  EQT_CHECK(batch_size_ > 0, "batches of {} samples", batch_size_);
}

std::vector<std::size_t> LengthBuckets::order(std::uint64_t epoch) const {
  const std::vector<std::size_t> before = partition_->order(epoch);
  std::vector<std::size_t> after = before;
  const std::size_t batches = before.size() / batch_size_;
  for (std::size_t first = 0; first < batches; first += kWindow) {
    const std::size_t count = std::min(kWindow, batches - first);
    const auto at = [&](std::size_t batch) {
      return static_cast<std::ptrdiff_t>((first + batch) * batch_size_);
    };
    std::vector<std::size_t> window(before.begin() + at(0), before.begin() + at(count));
    std::ranges::stable_sort(window, {},
                             [this](std::size_t sample) { return set_.length(sample); });
    const auto places = random_permutation(
        make_key(seed_, epoch, static_cast<std::uint32_t>(first), RandomPurpose::length_buckets),
        count);
    for (std::size_t batch = 0; batch < count; ++batch) {
      const auto from = window.begin() + static_cast<std::ptrdiff_t>(places[batch] * batch_size_);
      std::copy_n(from, batch_size_, after.begin() + at(batch));
    }
  }
  return after;
}

}  // namespace eqt::data
