// SPDX-License-Identifier: Apache-2.0
// Scatter-reduce: each rank owns an n-th of the segments; all send an owner its segments, the owner
// sums them, encodes the mean once more and sends it to all.
//
// m = frame bytes of d values, n ranks.
// Rounds   2
// Sent     2 * m * (n-1)/n bytes per rank (headers and the last segments aside)
// Decode   about 2d values per rank
// Lossy    twice: the values sent to the owner, and the mean sent back. With independent unbiased
//          codecs of relative variance eps the error is bounded by E|out - mean|^2 <= (eps/n^2) sum
//          |g_m|^2 + eps (|mean|^2 + (eps/n^2) sum |g_m|^2). The owner adds its own values exactly,
//          so the first term is smaller than that.
//
// A segment is a multiple of the codec's bucket, and each is assigned to the rank that owns the
// fewest values of the model so far. So neither the fusion buckets nor the owner change which
// values share a norm. The second quantisation has a separate random stream (kReducer).

#include <algorithm>
#include <array>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/segment_owners.hpp"
#include "core/clock.hpp"
#include "core/strata.hpp"

namespace eqt::collective {
namespace {

constexpr std::uint32_t kReducer =
    0xFFFFFFFFu;  // "rank" of the second quantisation's random stream

/// The ranges of one fusion bucket, by owner.
struct Chunks {
  DealtSegments of_rank;
  std::vector<codec::Segment> residual;  // my chunk, with `begin` in the residual buffer
};

class ScatterReduce final : public Collective {
 public:
  ScatterReduce(comm::Communicator& comm, const codec::Compressor& compressor,
                std::span<const FusionBucket> plan, const ScatterReduceOptions& options,
                Group group)
      : comm_(comm),
        compressor_(compressor),
        group_(std::move(group)),
        ranks_(group_.size()),
        me_(group_.me) {
    deal(plan, options.reducer_feedback);
    most_bytes_ = codec::max_message_bytes(compressor, {});
    for (const Chunks& chunks : chunks_) {
      for (const auto& segments : chunks.of_rank) {
        most_bytes_ = std::max(most_bytes_, codec::max_message_bytes(compressor, segments));
      }
    }
  }

  const CollectiveRow& row() const noexcept override { return kScatterReduce; }
  void visit_state(StateVisitor& visitor) override {
    visitor.placed("reducer residual", residual_, [this] { return places(); });
  }

  /// The chunk of which this rank is the owner is added as it is.
  std::optional<OwnParts> own_parts(const FusionBucket& bucket) const override {
    OwnParts parts;
    const DealtSegments& of_rank = chunks_[bucket.index].of_rank;
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      for (const codec::Segment& segment : of_rank[owner])
        (segment.compressed && owner != me_ ? parts.encoded : parts.plain).push_back(segment);
      if (owner != me_) parts.strata.resize(parts.encoded.size(), strata_for(owner));
    }
    return parts;
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const Chunks& chunks = chunks_[bucket.index];
    Slot& slot = slot_of(context);
    encode_contributions(bucket, chunks, context, values, slot, result.traffic);
    co_await scatter(bucket, chunks, slot);
    reduce(bucket, chunks, context.step, values, slot, result.traffic);
    const std::size_t bytes = encode_mean(bucket, chunks, context, values, slot, result.traffic);
    co_await gather(bucket, chunks, bytes, slot);
    decode_means(bucket, chunks, context.step, bytes, values, slot, result.traffic);
    result.contribution = {.compressor = &compressor_,
                           .step = context.step,
                           .index = bucket.index,
                           .frames = slot.frames,
                           .exact = chunks.of_rank[me_]};
  }

 private:
  struct Slot {
    std::vector<std::vector<std::byte>> contributed;  // to each owner; mine holds the mean
    std::vector<std::vector<std::byte>> received;     // from each peer
    std::vector<Frame> frames;
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.received.empty()) return slot;
    slot.contributed.assign(ranks_, std::vector<std::byte>(most_bytes_));
    slot.received.assign(ranks_, std::vector<std::byte>(most_bytes_));
    slot.frames.reserve(ranks_);
    slot.outgoing.reserve(ranks_);
    slot.incoming.reserve(ranks_);
    return slot;
  }

  void deal(std::span<const FusionBucket> plan, bool reducer_feedback) {
    for (DealtSegments& dealt : deal_segments(plan, compressor_, ranks_)) {
      chunks_.push_back({.of_rank = std::move(dealt), .residual = {}});
      if (reducer_feedback) place_residuals(chunks_.back());
    }
  }

  void place_residuals(Chunks& chunks) {
    for (codec::Segment segment : chunks.of_rank[me_]) {
      segment.begin = residual_.size();
      residual_.resize(residual_.size() + segment.count);
      chunks.residual.push_back(segment);
    }
  }

  /// Returns the places of the residual's values.
  std::vector<SliceRange> places() const {
    std::vector<SliceRange> ranges;
    for (const Chunks& chunks : chunks_) {
      if (chunks.residual.empty()) continue;
      for (const codec::Segment& segment : chunks.of_rank[me_]) {
        ranges.push_back({segment.slice, segment.first_index, segment.count});
      }
    }
    return ranges;
  }

  codec::MessageCodec messages_of(std::span<const codec::Segment> segments) {
    return {compressor_, segments, workspace_};
  }

  /// Returns the strata of my values for an owner, which adds its own as they are.
  const Strata* strata_for(std::size_t owner) const {
    return strata_of(static_cast<std::uint32_t>(me_ > owner ? me_ - 1 : me_),
                     static_cast<std::uint32_t>(ranks_ - 1));
  }

  void encode_contributions(const FusionBucket& bucket, const Chunks& chunks,
                            const MeanContext& context, std::span<const float> values, Slot& slot,
                            Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    slot.frames.clear();
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      const auto& segments = chunks.of_rank[owner];
      if (owner == me_ || segments.empty()) continue;
      codec::MessageContext message =
          context.message(static_cast<std::uint32_t>(me_), bucket.index);
      message.residual = {};
      message.strata = strata_for(owner);
      const std::size_t bytes =
          messages_of(segments).encode(values, message, slot.contributed[owner]);
      slot.frames.push_back({std::span(slot.contributed[owner]).first(bytes), segments});
      count_encoded(segments, bytes, traffic);
    }
  }

  comm::Transfers::Awaiter scatter(const FusionBucket& bucket, const Chunks& chunks, Slot& slot) {
    slot.outgoing.clear();
    slot.incoming.clear();
    std::size_t next = 0;
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (!chunks.of_rank[peer].empty()) {
        slot.outgoing.push_back({group_.ranks[peer], slot.frames[next++].bytes});
      }
      if (!chunks.of_rank[me_].empty()) {
        slot.incoming.push_back({group_.ranks[peer], slot.received[peer], 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      group_.of_host_sums
                                          ? "hierarchical: the hosts' messages to their owners"
                                          : "scatter-reduce: gradient messages to their owners");
  }

  /// Adds the received values to my own exact ones. Only I compute this sum, and all ranks decode
  /// my encoding of it, so different owners may add in a different order.
  void reduce(const FusionBucket& bucket, const Chunks& chunks, StepId step,
              std::span<float> values, const Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    for (const comm::Incoming& in : slot.incoming) {
      decode_from<&codec::MessageCodec::decode_add>(
          in.from, chunks.of_rank[me_], in.buffer.first(in.bytes), {step, bucket.index}, values);
    }
    for (const codec::Segment& segment : chunks.of_rank[me_]) {
      for (float& value : values.subspan(segment.begin, segment.count)) value *= group_.share;
    }
  }

  /// @return bytes of my mean's frame, which is written to contributed[me_]
  std::size_t encode_mean(const FusionBucket& bucket, const Chunks& chunks,
                          const MeanContext& context, std::span<float> values, Slot& slot,
                          Traffic& traffic) {
    const auto& mine = chunks.of_rank[me_];
    if (mine.empty()) return 0;
    const AddedSeconds timed(traffic.encode_seconds);
    for (std::size_t i = 0; i < chunks.residual.size(); ++i) {
      compensate(mine[i], chunks.residual[i], values);
    }
    const codec::MessageContext message = {.run_seed = context.run_seed,
                                           .id = {context.step, bucket.index | kReducedBit},
                                           .rank = kReducer,
                                           .density = context.density};
    const std::size_t bytes = messages_of(mine).encode(values, message, slot.contributed[me_]);
    if (!chunks.residual.empty()) {
      messages_of(chunks.residual)
          .decode_add(std::span(slot.contributed[me_]).first(bytes), message.id, -1.0f, residual_);
    }
    count_encoded(mine, bytes, traffic);
    return bytes;
  }

  /// values += residual; residual = values. The decoded values are subtracted from it later.
  void compensate(const codec::Segment& segment, const codec::Segment& residual,
                  std::span<float> values) {
    for (std::size_t i = 0; i < segment.count; ++i) {
      float& kept = residual_[residual.begin + i];
      kept += values[segment.begin + i];
      values[segment.begin + i] = kept;
    }
  }

  comm::Transfers::Awaiter gather(const FusionBucket& bucket, const Chunks& chunks,
                                  std::size_t bytes, Slot& slot) {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (bytes > 0) {
        slot.outgoing.push_back(
            {group_.ranks[peer], std::span(slot.contributed[me_]).first(bytes)});
      }
      if (!chunks.of_rank[peer].empty()) {
        slot.incoming.push_back({group_.ranks[peer], slot.received[peer], 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      group_.of_host_sums ? "hierarchical: means to all hosts"
                                                          : "scatter-reduce: means to everyone");
  }

  void decode_means(const FusionBucket& bucket, const Chunks& chunks, StepId step,
                    std::size_t bytes, std::span<float> values, const Slot& slot,
                    Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    // Every value belongs to one segment, and every segment to one rank.
    const codec::MessageId id = {step, bucket.index | kReducedBit};
    if (bytes > 0) {
      decode_from<&codec::MessageCodec::decode>(group_.ranks[me_], chunks.of_rank[me_],
                                                std::span(slot.contributed[me_]).first(bytes), id,
                                                values);
    }
    for (const comm::Incoming& in : slot.incoming) {
      const auto owner = std::lower_bound(group_.ranks.begin(), group_.ranks.end(), in.from);
      decode_from<&codec::MessageCodec::decode>(
          in.from, chunks.of_rank[static_cast<std::size_t>(owner - group_.ranks.begin())],
          in.buffer.first(in.bytes), id, values);
    }
  }

  template <auto kDecode>
  void decode_from(Rank from, std::span<const codec::Segment> segments,
                   std::span<const std::byte> frame, codec::MessageId id, std::span<float> values) {
    naming_sender(group_.of_host_sums ? "hierarchical" : name(), id.step, from,
                  [&] { (messages_of(segments).*kDecode)(frame, id, 1.0f, values); });
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  const Group group_;
  const std::size_t ranks_, me_;
  Workspace workspace_;
  std::vector<Chunks> chunks_;   // per fusion bucket, by its index
  std::size_t most_bytes_ = 0;   // of a message
  std::vector<float> residual_;  // of my second quantisation
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_scatter_reduce(comm::Communicator& comm,
                                                const codec::Compressor& compressor,
                                                std::span<const FusionBucket> plan,
                                                const ScatterReduceOptions& options) {
  return make_scatter_reduce(comm, compressor, plan, options, everyone(comm));
}

std::unique_ptr<Collective> make_scatter_reduce(comm::Communicator& comm,
                                                const codec::Compressor& compressor,
                                                std::span<const FusionBucket> plan,
                                                const ScatterReduceOptions& options, Group group) {
  require_carries(kScatterReduce, compressor);
  return std::make_unique<ScatterReduce>(comm, compressor, plan, options, std::move(group));
}

CollectiveCost owners_cost(const Volume& v, double added_values) {
  const double n = v.ranks;
  return {.rounds = 2,
          .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
          .encoded_values = v.values,
          .decoded_values = v.values * (n - 1) / n + v.values,
          .added_values = added_values,
          .quantisations = 2};
}

const CollectiveRow kScatterReduce = {
    .name = "scatter-reduce",
    .about = "each rank adds one chunk, then all gather the sums",
    .why_not = why_no_segments,
    .cost = [](const Volume& v) { return std::optional(owners_cost(v)); },
    .make =
        [](const CollectiveParts& parts) {
          return make_scatter_reduce(parts.comm, parts.compressor, parts.plan,
                                     {.reducer_feedback = parts.reducer_feedback});
        },
    .calibrates = true,
    .takes_exact_grades = true};

}  // namespace eqt::collective
