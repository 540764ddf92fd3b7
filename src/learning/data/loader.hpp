// SPDX-License-Identifier: Apache-2.0
// Prepares batches on background threads, so that steps do not wait for reading and augmenting.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "data/dataset.hpp"
#include "data/partition.hpp"

namespace eqt::data {

/// Batches of a shard, epoch after epoch, in order. Each epoch has floor(limit / batch_size)
/// batches where limit is the smallest shard of all ranks, so that all ranks take the same number
/// of steps; the samples left over differ from epoch to epoch.
class BatchLoader {
 public:
  struct Options {
    std::size_t batch_size = 64;
    std::size_t batches_per_epoch = 1;  // equal on all ranks; times batch_size <= shard
    bool augment = true;
    std::uint64_t seed = 1;
    std::uint64_t first_epoch = 0;
    std::size_t first_batch = 0;      // of first_epoch; to continue within an epoch
    int threads = 1;                  // that prepare batches, each one batch at a time
    std::optional<Range> share = {};  // see Deal; nothing: all
  };
  /// The samples of a batch.
  struct Deal {
    std::size_t batch_size = 1;  // that it takes of the order of an epoch
    Range share;  // the part of these that is read: ranks that visit the same samples divide each
                  // batch

    bool operator==(const Deal&) const = default;
  };
  /// Batches in memory at most, with one thread: the one in use and those ahead of it. Each further
  /// thread adds one.
  static constexpr std::size_t kSlots = 4;

  /// Keeps references: dataset and partition must outlive the loader.
  /// @throws Error{usage} when an epoch's batches do not fit into the shard
  BatchLoader(const Dataset& dataset, const Partition& partition, const Options& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch, the same for any number of threads; valid until the next call. Rethrows an
  /// exception of a background thread after all batches before it.
  const Batch& next();

  /// The next batch is number `batch` of `epoch`.
  /// @pre batch < batches_per_epoch
  void seek(std::uint64_t epoch, std::size_t batch);
  /// The next batch is number `batch` of `epoch`, and from then on a batch has the samples of
  /// `deal`.
  /// @pre share.begin < share.end <= batch_size
  void seek(std::uint64_t epoch, std::size_t batch, const Deal& deal);

 private:
  void restart(const Options& options);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace eqt::data
