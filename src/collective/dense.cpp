// Dense mean: float32 values, exactly, by a full-duplex pipeline of our own or by MPI_Allreduce.
//
// Rounds   2; 1 for two ranks     (MPI_Allreduce: 2(n-1), ring model)
// Sent     2 * 4d * (n-1)/n       bytes per rank
// Lossy    no

#include <array>

#include "collective/collective.hpp"
#include "collective/messages.hpp"
#include "collective/rank_order_mean.hpp"
#include "core/clock.hpp"

namespace eqt::collective {
namespace {

constexpr RankOrderMean::Operations kOperations = {"dense: float32 values to their owners",
                                                   "dense: means to everyone"};

class Dense final : public Collective {
 public:
  explicit Dense(comm::Communicator& comm) : comm_(comm) {}

  std::string_view name() const noexcept override { return "dense"; }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const auto part = values.subspan(bucket.begin, bucket.count());
    result.traffic.encoded_bytes += part.size_bytes();
    result.traffic.encoded_values += part.size();
    co_await average_.at(context.slot)(comm_, part, route_of(bucket, context.step), kOperations);
  }

 private:
  comm::Communicator& comm_;
  std::array<RankOrderMean, kMostSlots> average_;
};

/// One blocking MPI_Allreduce a bucket, in place: what most programs do, and the oracle for all
/// others. MPI keeps the thread, and a core, until the sum is there.
class MpiAllreduce final : public Collective {
 public:
  explicit MpiAllreduce(comm::Communicator& comm) : comm_(comm) {}

  std::string_view name() const noexcept override { return "mpi-allreduce"; }
  std::size_t slots() const noexcept override { return 1; }

  Task mean(const FusionBucket& bucket, const MeanContext&, std::span<float> values,
            MeanResult& result) override {
    const auto part = values.subspan(bucket.begin, bucket.count());
    const Stopwatch allreduce;
    comm_.allreduce_sum(part);
    result.blocked_seconds += allreduce.seconds();
    const Stopwatch decode;
    const float share = 1.0f / static_cast<float>(comm_.size());
    if (comm_.size() > 1) {
      for (float& value : part) value *= share;
    }
    result.traffic.decode_seconds += decode.seconds();
    result.traffic.encoded_bytes += part.size_bytes();
    result.traffic.encoded_values += part.size();
    co_return;
  }

 private:
  comm::Communicator& comm_;
};

}  // namespace

std::unique_ptr<Collective> make_dense(comm::Communicator& comm) {
  return std::make_unique<Dense>(comm);
}

std::unique_ptr<Collective> make_mpi_allreduce(comm::Communicator& comm) {
  return std::make_unique<MpiAllreduce>(comm);
}

}  // namespace eqt::collective
