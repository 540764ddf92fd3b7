// SPDX-License-Identifier: Apache-2.0
// The samples that a rank owns, and the order in which it visits them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace eqt::data {

class Dataset;  // of data/dataset.hpp

/// One rank's shard of the training set. No sample is in two shards or twice in one.
class Partition {
 public:
  virtual ~Partition() = default;
  virtual std::size_t size() const = 0;  // [samples]
  /// The shard's sample indices in the order of `epoch`.
  virtual std::vector<std::size_t> order(std::uint64_t epoch) const = 0;
  /// Returns the order for epochs of which `samples` are visited, where that decides what an epoch
  /// is.
  virtual std::vector<std::size_t> order_for(std::uint64_t epoch, std::size_t /*samples*/) const {
    return order(epoch);
  }
};

/// A fixed shard of a PartitionPlan, which every epoch shuffles again.
class ShardPartition : public Partition {
 public:
  /// @param shard sample indices, each once
  ShardPartition(std::vector<std::size_t> shard, int rank, std::uint64_t seed)
      : shard_(std::move(shard)), rank_(rank), seed_(seed) {}
  std::size_t size() const override { return shard_.size(); }
  std::vector<std::size_t> order(std::uint64_t epoch) const override;

 private:
  std::vector<std::size_t> shard_;
  int rank_;
  std::uint64_t seed_;
};

/// The shard of plan_iid().
class IidPartition : public ShardPartition {
 public:
  /// @throws Error{usage} if ranks > samples
  IidPartition(std::size_t samples, int rank, int ranks, std::uint64_t seed);
};

/// Each epoch divides a permutation of the whole set, a pure function of (seed, epoch), among the
/// ranks: rank r has its elements r, r + ranks, r + 2 ranks, ... So the shards of an epoch cover
/// the set. After equally many samples on all ranks, the visited samples are the beginning of the
/// permutation, so another number of ranks can continue with the rest of it.
class ReshuffledPartition : public Partition {
 public:
  /// @throws Error{usage} if ranks > samples
  ReshuffledPartition(std::size_t samples, int rank, int ranks, std::uint64_t seed);
  std::size_t size() const override;
  std::vector<std::size_t> order(std::uint64_t epoch) const override;

 private:
  std::size_t samples_;
  std::size_t rank_, ranks_;
  std::uint64_t seed_;
};

/// All samples of a rank's own, as often as the epochs ask for them: epoch e visits the places
/// [e length, (e + 1) length) of an endless row of permutations, which are pure functions of (seed,
/// rank, number of the permutation). So a rank visits each of its samples equally often, but for
/// one time, whether epochs are shorter or longer than its set. If the length of an epoch changes
/// during a run, it goes on at the place where it would be if epochs had always been that long: a
/// sample may then be visited once more or less for each change.
class EndlessPartition : public Partition {
 public:
  /// @param first, end the rank's samples, at least one
  /// @param length samples of an epoch
  EndlessPartition(std::size_t first, std::size_t end, std::size_t length, int rank,
                   std::uint64_t seed);
  std::size_t size() const override { return length_; }
  std::vector<std::size_t> order(std::uint64_t epoch) const override {
    return order_for(epoch, length_);
  }
  std::vector<std::size_t> order_for(std::uint64_t epoch, std::size_t samples) const override;

 private:
  std::size_t first_, samples_, length_;
  int rank_;
  std::uint64_t seed_;
};

/// The samples of another partition, in an order in which those of a batch have about the same
/// length. The shard is the same, and so are the samples of each window of kWindow batches: they
/// are sorted by length, and their batches shuffled, by the same permutation on every rank, so that
/// ranks have batches of about the same length at the same time. What is left over behind the last
/// whole batch stays where it is.
class LengthBuckets final : public Partition {
 public:
  static constexpr std::size_t kWindow = 32;  // [batches]

  /// @param set outlives this
  LengthBuckets(std::unique_ptr<Partition> partition, const Dataset& set, std::size_t batch_size,
                std::uint64_t seed);
  std::size_t size() const override { return partition_->size(); }
  std::vector<std::size_t> order(std::uint64_t epoch) const override;

 private:
  std::unique_ptr<Partition> partition_;
  const Dataset& set_;
  std::size_t batch_size_;
  std::uint64_t seed_;
};

/// Rank r's half-open range of [0, count) when it is cut into `ranks` ranges that differ by at most
/// one in length, longer ones first.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const Range&) const = default;
};
Range even_share(std::size_t count, int rank, int ranks);

}  // namespace eqt::data
