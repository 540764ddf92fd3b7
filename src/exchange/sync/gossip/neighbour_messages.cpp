// SPDX-License-Identifier: Apache-2.0
// Messages of buckets, encoded once and sent to every neighbour.

#include "sync/gossip/neighbour_messages.hpp"

#include <algorithm>

#include "codec/message.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "core/square_norm.hpp"
#include "pipeline/messages.hpp"

namespace eqt::sync {
namespace {

/// Position of the round in a message's index.
constexpr std::uint32_t kRoundShift = 28;

/// The factor that the receiver applies to a message; both ends of an edge compute the same number.
float weight_of(const topology::Neighbour& edge, float scale) {
  return scale * static_cast<float>(edge.weight);
}

double sum_of_weights(std::span<const topology::Neighbour> edges, float scale) {
  double sum = 0;
  for (const topology::Neighbour& edge : edges) sum += static_cast<double>(weight_of(edge, scale));
  return sum;
}

/// The messages of the rounds of one step use different random numbers. A compressor that draws the
/// same numbers in every step gets new ones here: the error of PowerSGD is orthogonal to the start
/// that it draws, so the next step would not find it from there.
std::uint64_t seed_of(const codec::Compressor& compressor, const MixContext& context) {
  const std::uint64_t seed =
      context.round == 0 ? context.run_seed : context.run_seed ^ mix64(context.round);
  if (!compressor.properties().same_draw) return seed;
  return mix64(seed + context.step);
}

/// The bucket without the segments that are left out.
FusionBucket only_present(const FusionBucket& bucket, std::span<const std::uint8_t> present) {
  FusionBucket part = bucket;
  part.segments.clear();
  for (std::size_t i = 0; i < present.size(); ++i)
    if (present[i] != 0) part.segments.push_back(bucket.segments[i]);
  return part;
}

}  // namespace

NeighbourMessages::NeighbourMessages(const MixerParts& parts, std::string_view name, bool lists)
    : parts_(parts), name_(name), lists_(lists) {
  for (const FusionBucket& bucket : parts.plan) {
    EQT_CHECK(bucket.index == from_zero_.size(), "bucket {} at place {} of the plan", bucket.index,
              from_zero_.size());
    auto& own = from_zero_.emplace_back(bucket).segments;
    for (codec::Segment& segment : own) segment.begin -= bucket.begin;
    const std::size_t list = lists ? codec::segment_list_bytes(own.size()) : 0;
    most_bytes_ = std::max(most_bytes_, list + codec::max_message_bytes(parts.compressor, own));
  }
  const Rank me = parts.comm.rank();
  for (StepId step = 0; step < parts.topology.period(); ++step) {
    const topology::MixingMatrix& matrix = parts.topology.at(step);
    most_in_ = std::max(most_in_, matrix.in_neighbours(me).size());
    most_out_ = std::max(most_out_, matrix.out_neighbours(me).size());
  }
}

NeighbourMessages::Slot& NeighbourMessages::slot_of(const MixContext& context) {
  Slot& slot = slots_.at(context.slot);
  if (!slot.mine.empty()) return slot;
  slot.mine.resize(most_bytes_);
  slot.buffers.assign(most_in_, std::vector<std::byte>(most_bytes_));
  slot.outgoing.reserve(most_out_);
  slot.incoming.reserve(most_in_);
  return slot;
}

codec::MessageId NeighbourMessages::id_of(const FusionBucket& bucket,
                                          const MixContext& context) const {
  return {context.step, bucket.index | context.round << kRoundShift};
}

double NeighbourMessages::out_weight(const MixContext& context, float scale) const {
  return sum_of_weights(graph(context).out_neighbours(parts_.comm.rank()), scale);
}

double NeighbourMessages::in_weight(const MixContext& context, float scale) const {
  return sum_of_weights(graph(context).in_neighbours(parts_.comm.rank()), scale);
}

void NeighbourMessages::encode(const FusionBucket& bucket, const MixContext& context,
                               std::span<const float> values, MixResult& result,
                               std::span<const std::optional<RoundedRows>> rounded,
                               std::span<const std::uint8_t> present) {
  EQT_CHECK(present.empty() != lists_, "bucket {} with {} segments listed", bucket.index,
            present.size());
  const Stopwatch encode;
  Slot& slot = slot_of(context);
  const auto segments = segments_of(bucket);
  if (context.observer != nullptr) observe(bucket, *context.observer, present, values);
  slot.scales.clear();
  // There is no common scale, because neighbours have different neighbours.
  if (parts_.compressor.properties().shared_scale) {
    for (const codec::Segment& s : segments) {
      slot.scales.push_back(
          s.compressed ? parts_.compressor.local_scale(values.subspan(s.begin, s.count)) : 0.0f);
    }
  }
  slot.mine_bytes = codec::MessageCodec(parts_.compressor, segments, workspace_)
                        .encode(values,
                                {.run_seed = seed_of(parts_.compressor, context),
                                 .id = id_of(bucket, context),
                                 .rank = static_cast<std::uint32_t>(parts_.comm.rank()),
                                 .density = context.density,
                                 .scales = slot.scales,
                                 .own_scales = slot.scales,
                                 .rounded = rounded,
                                 .present = present},
                                slot.mine);
  result.traffic.encode_seconds += encode.seconds();
  result.traffic.encoded_bytes += slot.mine_bytes;
  result.traffic.encoded_values += bucket.count();
  if (context.measure) measure(bucket, context, values, present, slot, result);
}

void NeighbourMessages::observe(const FusionBucket& bucket, const Observer& observer,
                                std::span<const std::uint8_t> present,
                                std::span<const float> values) const {
  const FusionBucket& whole = from_zero_.at(bucket.index);
  if (lists_) {
    observer(only_present(whole, present), values);
  } else {
    observer(whole, values);
  }
}

void NeighbourMessages::measure(const FusionBucket& bucket, const MixContext& context,
                                std::span<const float> values,
                                std::span<const std::uint8_t> present, Slot& slot,
                                MixResult& result) {
  slot.difference.assign(values.begin(), values.end());
  const auto segments = segments_of(bucket);
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (present[i] != 0) continue;
    const auto left_out = std::span(slot.difference).subspan(segments[i].begin, segments[i].count);
    std::ranges::fill(left_out, 0.0f);
  }
  result.message.exact += square_norm(slot.difference);
  MixResult unused;
  add_own(bucket, context, -1, slot.difference, unused);
  result.message.error += square_norm(slot.difference);
}

void NeighbourMessages::decode_add(const FusionBucket& bucket, const MixContext& context,
                                   std::span<const std::byte> message, float scale,
                                   std::span<float> values) {
  const codec::MessageCodec codec(parts_.compressor, segments_of(bucket), workspace_);
  if (lists_) {
    codec.decode_listed_add(message, id_of(bucket, context), scale, values);
  } else {
    codec.decode_add(message, id_of(bucket, context), scale, values);
  }
}

comm::Transfers::Awaiter NeighbourMessages::exchange(const FusionBucket& bucket,
                                                     const MixContext& context,
                                                     const char* operation) {
  Slot& slot = slot_of(context);
  const Rank me = parts_.comm.rank();
  const auto mine = std::span<const std::byte>(slot.mine).first(slot.mine_bytes);
  slot.outgoing.clear();
  slot.incoming.clear();
  for (const topology::Neighbour& to : graph(context).out_neighbours(me)) {
    slot.outgoing.push_back({to.rank, mine});
  }
  for (const topology::Neighbour& from : graph(context).in_neighbours(me)) {
    slot.incoming.push_back({from.rank, slot.buffers[slot.incoming.size()], 0});
  }
  return parts_.comm.transfers().exchange(slot.outgoing, slot.incoming, pipeline::route_of(bucket),
                                          operation);
}

void NeighbourMessages::add_own(const FusionBucket& bucket, const MixContext& context, float scale,
                                std::span<float> values, MixResult& result) {
  const Stopwatch decode;
  Slot& slot = slot_of(context);
  decode_add(bucket, context, std::span(slot.mine).first(slot.mine_bytes), scale, values);
  result.traffic.decode_seconds += decode.seconds();
}

void NeighbourMessages::add_neighbours(const FusionBucket& bucket, const MixContext& context,
                                       float scale, std::span<float> values, MixResult& result) {
  const Stopwatch decode;
  Slot& slot = slot_of(context);
  const auto neighbours = graph(context).in_neighbours(parts_.comm.rank());
  for (std::size_t i = 0; i < slot.incoming.size(); ++i) {
    const comm::Incoming& in = slot.incoming[i];
    try {
      decode_add(bucket, context, in.buffer.first(in.bytes), weight_of(neighbours[i], scale),
                 values);
    } catch (const Error& error) {
      pipeline::rethrow_refused(error, name_, context.step, in.from);
    }
  }
  result.traffic.decode_seconds += decode.seconds();
}

}  // namespace eqt::sync
