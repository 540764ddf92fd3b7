// SPDX-License-Identifier: Apache-2.0
// Dense mean: exact float32 values, by this program's full-duplex pipeline, in the memory of the
// one host that all ranks are on, or by MPI_Allreduce.
//
// Rounds   2; 1 for two ranks     (MPI_Allreduce: 2(n-1), ring model)
// Sent     2 * 4d * (n-1)/n       bytes per rank
// Lossy    no
//
// Workers that one process plays have the same mean, bit for bit, without messages.

#include <algorithm>
#include <array>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/mean_kernel.hpp"
#include "collective/messages.hpp"
#include "collective/rank_order_mean.hpp"
#include "collective/worker_mean.hpp"
#include "core/checksum.hpp"
#include "core/clock.hpp"

namespace eqt::collective {
namespace {

constexpr RankOrderMean::Operations kOperations = {"dense: float32 values to their owners",
                                                   "dense: means to everyone"};

class Dense final : public Collective {
 public:
  explicit Dense(comm::Communicator& comm) : comm_(comm) {}

  const CollectiveRow& row() const noexcept override { return kDense; }
  /// Means in a host's memory use the same counters, and there is no round trip to hide.
  std::size_t slots() const noexcept override {
    return comm_.host_memory() == nullptr ? row().slots : 1;
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const auto part = values.subspan(bucket.begin, bucket.count());
    result.traffic.encoded_bytes += part.size_bytes();
    result.traffic.encoded_values += part.size();
    if (in_host_memory(comm_, part)) {
      co_await mean_in_host_memory(comm_, part);
      co_return;
    }
    co_await average_.at(context.slot)(comm_, part, route_of(bucket, context.step), kOperations,
                                       values.size());
  }

 private:
  comm::Communicator& comm_;
  std::array<RankOrderMean, kMaxSlots> average_;
};

/// One blocking MPI_Allreduce per bucket, in place: what most programs do, and the reference for
/// all others. MPI keeps the thread and a core busy until the sum is complete.
class MpiAllreduce final : public Collective {
 public:
  explicit MpiAllreduce(comm::Communicator& comm) : comm_(comm) {}

  const CollectiveRow& row() const noexcept override { return kMpiAllreduce; }

  Task mean(const FusionBucket& bucket, const MeanContext&, std::span<float> values,
            MeanResult& result) override {
    const auto part = values.subspan(bucket.begin, bucket.count());
    const Stopwatch allreduce;
    comm_.allreduce_sum(part);
    result.blocked_seconds += allreduce.seconds();
    const Stopwatch decode;
    const float* const sums = part.data();
    if (comm_.size() > 1)
      mean_of_rows(std::span(&sums, 1), 1.0f / static_cast<float>(comm_.size()), part,
                   values.size());
    result.traffic.decode_seconds += decode.seconds();
    result.traffic.encoded_bytes += part.size_bytes();
    result.traffic.encoded_values += part.size();
    co_return;
  }

 private:
  comm::Communicator& comm_;
};

class WorkerDense final : public WorkerMean {
 public:
  WorkerDense(std::span<const FusionBucket> plan, int workers)
      : workers_(workers), kept_(plan, workers) {}

  const CollectiveRow& row() const noexcept override { return kDense; }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext&,
            std::span<const float> values, Traffic& traffic) override {
    kept_.keep(worker, bucket, values);
    traffic.encoded_bytes += bucket.count() * sizeof(float);
    traffic.encoded_values += bucket.count();
  }

  void mean(const FusionBucket& bucket, const MeanContext&, std::span<float> values,
            Traffic& traffic) override {
    const AddedSeconds timed(traffic.decode_seconds);
    rows_.clear();
    for (Rank w = 0; w < workers_; ++w) rows_.push_back(kept_.of(w).data() + bucket.begin);
    mean_of_rows(rows_, 1.0f / static_cast<float>(workers_),
                 values.subspan(bucket.begin, bucket.count()), values.size());
    // All values to their owners, all means to all ranks: 2 * 4d * (n-1)/n per rank.
    const auto others = static_cast<std::uint64_t>(workers_ - 1);
    const std::uint64_t bytes =
        2 * sizeof(float) * bucket.count() * others + kChecksumBytes * messages(bucket.count());
    traffic.sent_bytes += bytes;
    traffic.received_bytes += bytes;
  }

  /// Counts the messages of all ranks: two send each other everything, more of them send each
  /// owner's part there and back.
  std::uint64_t messages(std::uint64_t values) const {
    const auto ranks = static_cast<std::uint64_t>(workers_);
    if (ranks == 2) return values > 0 ? 2 : 0;
    return 2 * std::min(ranks, values) * (ranks - 1);
  }

  Contribution contribution(Rank, const FusionBucket&) const override { return {}; }

 private:
  const int workers_;
  KeptValues kept_;
  std::vector<const float*> rows_;
};

}  // namespace

std::unique_ptr<Collective> make_dense(comm::Communicator& comm) {
  return std::make_unique<Dense>(comm);
}

std::unique_ptr<Collective> make_mpi_allreduce(comm::Communicator& comm) {
  return std::make_unique<MpiAllreduce>(comm);
}

std::unique_ptr<WorkerMean> make_worker_dense(std::span<const FusionBucket> plan, int workers) {
  return std::make_unique<WorkerDense>(plan, workers);
}

namespace {

std::string_view why_no_floats(const codec::Compressor& compressor) {
  const codec::Properties properties = compressor.properties();
  if (properties.is_float32()) return {};
  if (properties.lossless) return "averages float32 values without compressor.coding \"lossless\"";
  return "averages float32 values and compresses nothing";
}

std::optional<CollectiveCost> dense_cost(const Volume& v) {
  const double n = v.ranks;
  // Each rank adds its part of all arrays and writes the mean to all, which takes as long as adding
  // all values once; the rounds are those of counters.
  if (v.shares_memory)
    return CollectiveCost{
        .rounds = 2, .sent_bytes = 2 * 4 * v.values * (n - 1) / n, .added_values = v.values};
  return CollectiveCost{.rounds = v.ranks <= 2 ? 1 : 2,
                        .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
                        // Two ranks both add all values; of more ranks, each adds n - 1 times one
                        // n-th of them.
                        .added_values = v.ranks == 2 ? v.values : v.values * (n - 1) / n};
}

std::optional<CollectiveCost> mpi_cost(const Volume& v) {
  const double n = v.ranks;
  return CollectiveCost{.rounds = 2 * (v.ranks - 1),
                        .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
                        .added_values = v.values * (n - 1) / n};
}

}  // namespace

const CollectiveRow kDense = {
    .name = "dense",
    .about = "float32 by a full-duplex pipeline; only for the compressor none",
    .why_not = why_no_floats,
    .cost = dense_cost,
    .make =
        [](const CollectiveParts& parts) {
          require_carries(kDense, parts.compressor);
          return make_dense(parts.comm);
        },
    .make_for_workers =
        [](const WorkerParts& parts) { return make_worker_dense(parts.plan, parts.workers); },
    .rounds = dense_rounds,
    .calibrates = true,
    .shares_memory = true};

const CollectiveRow kMpiAllreduce = {
    .name = "mpi-allreduce",
    .about = "float32 by MPI_Allreduce; only for the compressor none",
    .why_not = why_no_floats,
    .cost = mpi_cost,
    .make =
        [](const CollectiveParts& parts) {
          require_carries(kMpiAllreduce, parts.compressor);
          return make_mpi_allreduce(parts.comm);
        },
    .rounds = ring_rounds,
    .slots = 1,
    // MPI can take a whole fusion bucket at once. It is only cut so that the deadline is for a part
    // of it.
    .split_bytes = std::size_t{64} << 20};

}  // namespace eqt::collective
