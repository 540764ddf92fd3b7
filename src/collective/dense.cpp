// Dense allreduce: the mean of float32 values by the MPI library's own algorithm.
//
// Rounds   2(n-1)            (ring model)
// Sent     2 * 4d * (n-1)/n  bytes per rank (ring model)
// Lossy    no

#include "collective/collective.hpp"
#include "core/clock.hpp"

namespace eqt::collective {
namespace {

class Dense final : public Collective {
 public:
  explicit Dense(comm::Communicator& comm) : comm_(comm) {}

  std::string_view name() const noexcept override { return "dense"; }

  Contribution mean(const FusionBucket& bucket, const MeanContext&, std::span<float> values,
                    Traffic& traffic) override {
    const auto part = values.subspan(bucket.begin, bucket.count());
    const Stopwatch transfer;
    comm_.allreduce_sum(part);
    traffic.transfer_seconds += transfer.seconds();
    const Stopwatch decode;
    const float share = 1.0f / static_cast<float>(comm_.size());
    if (comm_.size() > 1) {
      for (float& value : part) value *= share;
    }
    traffic.decode_seconds += decode.seconds();
    traffic.encoded_bytes += part.size_bytes();
    traffic.encoded_values += part.size();
    return {};
  }

 private:
  comm::Communicator& comm_;
};

}  // namespace

std::unique_ptr<Collective> make_dense(comm::Communicator& comm) {
  return std::make_unique<Dense>(comm);
}

}  // namespace eqt::collective
