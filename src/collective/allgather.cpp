// Allgather mean: everyone's message goes to everyone, who decodes all of them in rank order.
//
// m = frame bytes of d values, n ranks.
// Rounds   1
// Sent     m * (n-1) bytes per rank
// Decode   n * d values per rank
// Lossy    once

#include <algorithm>

#include "collective/collective.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

class Allgather final : public Collective {
 public:
  Allgather(comm::Communicator& comm, const codec::Compressor& compressor,
            std::span<const FusionBucket> plan)
      : comm_(comm), compressor_(compressor) {
    std::size_t most_bytes = 0, most_segments = 0;
    for (const FusionBucket& bucket : plan) {
      most_bytes =
          std::max(most_bytes, codec::max_message_bytes(compressor, std::span(bucket.segments)));
      most_segments = std::max(most_segments, bucket.segments.size());
    }
    const auto n = static_cast<std::size_t>(comm.size());
    rooms_.assign(n, std::vector<std::byte>(most_bytes));
    frames_.resize(n);
    scales_.resize(most_segments);
    own_scales_.resize(most_segments);
    outgoing_.reserve(n);
    incoming_.reserve(n);
  }

  std::string_view name() const noexcept override { return "allgather"; }
  // A shared scale is agreed on before the residual is added.
  bool takes_residual() const noexcept override { return !compressor_.properties().shared_scale; }

  Contribution mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
                    Traffic& traffic) override {
    const auto scales = agree_on_scales(bucket, values, traffic);

    const Stopwatch encode;
    std::vector<std::byte>& mine = rooms_[static_cast<std::size_t>(comm_.rank())];
    const std::size_t bytes =
        codec::encode_message(compressor_, bucket.segments, values,
                              {.run_seed = context.run_seed,
                               .step = context.step,
                               .rank = static_cast<std::uint32_t>(comm_.rank()),
                               .index = bucket.index,
                               .density = context.density,
                               .scales = scales,
                               .own_scales = std::span(own_scales_).first(scales.size()),
                               .residual = context.residual},
                              workspace_, mine);
    traffic.encode_seconds += encode.seconds();
    traffic.encoded_bytes += bytes;
    traffic.encoded_values += bucket.count();

    const Stopwatch transfer;
    exchange(std::span(mine).first(bytes));
    traffic.transfer_seconds += transfer.seconds();

    const Stopwatch decode;
    decode_all(bucket, context.step, std::span(mine).first(bytes), values);
    traffic.decode_seconds += decode.seconds();

    frame_ = {std::span(mine).first(bytes), bucket.segments};
    return {.compressor = &compressor_,
            .step = context.step,
            .index = bucket.index,
            .frames = std::span(&frame_, 1),
            .exact = {}};
  }

 private:
  /// TernGrad's scaler sharing: the maximum over ranks of each segment's own scale, agreed before
  /// anyone draws.
  std::span<const float> agree_on_scales(const FusionBucket& bucket, std::span<const float> values,
                                         Traffic& traffic) {
    if (!compressor_.properties().shared_scale) return {};
    const Stopwatch encode;
    const auto scales = std::span(scales_).first(bucket.segments.size());
    for (std::size_t i = 0; i < scales.size(); ++i) {
      const codec::Segment& segment = bucket.segments[i];
      scales[i] = segment.compressed
                      ? compressor_.local_scale(values.subspan(segment.begin, segment.count))
                      : 0.0f;
    }
    std::copy(scales.begin(), scales.end(), own_scales_.begin());
    traffic.encode_seconds += encode.seconds();
    const Stopwatch transfer;
    comm_.allreduce_max(scales);
    traffic.transfer_seconds += transfer.seconds();
    return scales;
  }

  void exchange(std::span<const std::byte> mine) {
    outgoing_.clear();
    incoming_.clear();
    for (Rank peer = 0; peer < comm_.size(); ++peer) {
      if (peer == comm_.rank()) continue;
      outgoing_.push_back({peer, mine});
      incoming_.push_back({peer, rooms_[static_cast<std::size_t>(peer)], 0});
    }
    comm_.exchange(outgoing_, incoming_, "allgather of gradient messages");
  }

  /// Rank order on every rank: float addition is not associative, and replicas must stay equal.
  void decode_all(const FusionBucket& bucket, StepId step, std::span<const std::byte> mine,
                  std::span<float> values) {
    const auto part = values.subspan(bucket.begin, bucket.count());
    std::fill(part.begin(), part.end(), 0.0f);
    const float share = 1.0f / static_cast<float>(comm_.size());
    std::size_t peer_index = 0;
    for (Rank from = 0; from < comm_.size(); ++from) {
      auto& frame = frames_[static_cast<std::size_t>(from)];
      frame = mine;
      if (from == comm_.rank()) continue;
      const comm::Incoming& in = incoming_[peer_index++];
      frame = in.room.first(in.bytes);
    }
    try {
      codec::decode_messages_add(compressor_, bucket.segments, frames_, step, bucket.index, share,
                                 workspace_, values);
    } catch (const Error&) {
      name_sender(bucket, step, values);
      throw;
    }
    if (!compressor_.properties().votes) return;
    for (const codec::Segment& segment : bucket.segments) {
      if (segment.compressed) {
        compressor_.finish_mean(values.subspan(segment.begin, segment.count));
      }
    }
  }

  /// After a message was refused: throws with the rank that sent it.
  void name_sender(const FusionBucket& bucket, StepId step, std::span<float> values) {
    for (Rank from = 0; from < comm_.size(); ++from) {
      try {
        codec::decode_message_add(compressor_, bucket.segments,
                                  frames_[static_cast<std::size_t>(from)], step, bucket.index, 0,
                                  workspace_, values);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    fmt::format("step {}, from rank {}: {}", step, from, error.what()));
      }
    }
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  Workspace workspace_;
  std::vector<std::vector<std::byte>> rooms_;       // one frame per rank, mine among them
  std::vector<std::span<const std::byte>> frames_;  // by rank
  std::vector<float> scales_, own_scales_;          // per segment: shared by all ranks, this rank's
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
  Frame frame_;
};

}  // namespace

std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan) {
  return std::make_unique<Allgather>(comm, compressor, plan);
}

}  // namespace eqt::collective
