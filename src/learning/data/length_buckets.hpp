// SPDX-License-Identifier: Apache-2.0
// Batches of samples of about the same length, so that little of a batch only fills up.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "data/partition.hpp"

namespace eqt::data {

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

}  // namespace eqt::data
