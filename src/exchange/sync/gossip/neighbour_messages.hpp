// SPDX-License-Identifier: Apache-2.0
// A rank's messages to and from its neighbours. Private to the room.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sync/gossip/mixer.hpp"

namespace eqt::sync {

/// Encodes one message per bucket, sends it to every out-neighbour of the step's graph and adds the
/// received messages in the order of ranks. Values are those of a bucket, from 0.
class NeighbourMessages {
 public:
  /// @param lists messages list their segments, of which some may be left out
  NeighbourMessages(const MixerParts& parts, std::string_view name, bool lists = false);

  /// Encodes `values` (bucket.count()); the message stays in the slot.
  /// @param rounded  by segment, see codec::MessageContext
  /// @param present  by segment, 0 = it is left out; empty unless messages list their segments
  void encode(const FusionBucket& bucket, const MixContext& context, std::span<const float> values,
              MixResult& result, std::span<const std::optional<RoundedRows>> rounded = {},
              std::span<const std::uint8_t> present = {});
  /// co_await it: sends the slot's message and receives those of the neighbours.
  comm::Transfers::Awaiter exchange(const FusionBucket& bucket, const MixContext& context,
                                    const char* operation);
  /// values += scale * the decoded message of the slot.
  void add_own(const FusionBucket& bucket, const MixContext& context, float scale,
               std::span<float> values, MixResult& result);
  /// values += scale * sum_j W_ij q_j over the in-neighbours.
  /// @throws Error{wire} naming the sender of a malformed message
  void add_neighbours(const FusionBucket& bucket, const MixContext& context, float scale,
                      std::span<float> values, MixResult& result);

  /// scale * (1 - W_ii) of the step, as the sum of the factors that the out-neighbours apply to
  /// this rank's message. If columns of rounded weights did not sum to 1, every step would change
  /// the mean over ranks by the same factor.
  double out_weight(const MixContext& context, float scale) const;
  /// scale * sum_j W_ij of the step over the in-neighbours, rounded like the weights themselves.
  double in_weight(const MixContext& context, float scale) const;
  const codec::Compressor& compressor() const noexcept { return parts_.compressor; }

 private:
  struct Slot {
    std::vector<std::byte> mine;
    std::size_t mine_bytes = 0;
    std::vector<std::vector<std::byte>> buffers;  // by in-neighbour
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
    std::vector<float> scales;      // this rank's own, if the codec has shared ones
    std::vector<float> difference;  // between values and the decoded message, if measured
  };

  const topology::MixingMatrix& graph(const MixContext& context) const {
    return parts_.topology.at(context.step);
  }
  Slot& slot_of(const MixContext& context);
  void observe(const FusionBucket& bucket, const Observer& observer,
               std::span<const std::uint8_t> present, std::span<const float> values) const;
  void measure(const FusionBucket& bucket, const MixContext& context, std::span<const float> values,
               std::span<const std::uint8_t> present, Slot& slot, MixResult& result);
  void decode_add(const FusionBucket& bucket, const MixContext& context,
                  std::span<const std::byte> message, float scale, std::span<float> values);
  codec::MessageId id_of(const FusionBucket& bucket, const MixContext& context) const;
  std::span<const codec::Segment> segments_of(const FusionBucket& bucket) const {
    return from_zero_.at(bucket.index).segments;
  }

  MixerParts parts_;
  const std::string_view name_;
  const bool lists_;
  std::vector<FusionBucket> from_zero_;  // the plan's; segments are relative to their bucket's
                                         // begin
  std::size_t most_bytes_ = 0, most_in_ = 0, most_out_ = 0;
  Workspace workspace_;  // not used across a pause
  std::array<Slot, pipeline::kMaxSlots> slots_;
};

}  // namespace eqt::sync
