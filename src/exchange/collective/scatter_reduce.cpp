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
//
// Workers that one process plays have the same mean, bit for bit, without messages: a participant
// computes, for a rank as for a worker, and never sends.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/memory.hpp"
#include "collective/messages.hpp"
#include "collective/segment_owners.hpp"
#include "collective/worker_mean.hpp"
#include "core/clock.hpp"
#include "core/strata.hpp"

namespace eqt::collective {
namespace {

constexpr std::uint32_t kReducer =
    0xFFFFFFFFu;  // "rank" of the second quantisation's random stream

/// Returns the longest message of one rank to one owner, or of an owner [bytes].
std::size_t most_message_bytes(const codec::Compressor& compressor,
                               std::span<const DealtSegments> deals) {
  std::size_t most = codec::max_message_bytes(compressor, {});
  for (const DealtSegments& of_rank : deals) {
    for (const auto& segments : of_rank) {
      most = std::max(most, codec::max_message_bytes(compressor, segments));
    }
  }
  return most;
}

struct ParticipantOptions {
  std::size_t me = 0, ranks = 1;  // index in the group, and its size
  float share = 1;                // the mean is this times the sum
  bool reducer_feedback = false;
  float feedback_decay = 1;    // of the residual before it is added, in (0, 1]
  std::string_view operation;  // for error messages
};

/// A participant computes what one rank has to compute in a mean: messages to owners, and the mean
/// of its own chunk, which is what it owns of a fusion bucket. It sends nothing. The caller says in
/// which order messages are added.
class Participant {
 public:
  /// Keeps references to the first three. @param deals by fusion bucket
  Participant(const codec::Compressor& compressor, std::span<const DealtSegments> deals,
              Workspace& workspace, const ParticipantOptions& options)
      : compressor_(compressor), deals_(deals), workspace_(workspace), options_(options) {
    if (options.reducer_feedback) place_residuals();
  }

  void visit_state(StateVisitor& visitor) {
    visitor.placed("reducer residual", residual_, [this] { return places(); });
  }

  /// Returns the strata of my values for an owner, which adds its own as they are.
  const Strata* strata_for(std::size_t owner) const {
    const std::size_t me = options_.me;
    return strata_of(static_cast<std::uint32_t>(me > owner ? me - 1 : me),
                     static_cast<std::uint32_t>(options_.ranks - 1));
  }

  /// Encodes my values of an owner's chunk into `buffer`. @pre the owner is another rank
  Frame encode_for(std::size_t owner, const FusionBucket& bucket, const MeanContext& context,
                   std::span<const float> values, std::span<std::byte> buffer, Traffic& traffic) {
    const auto& segments = deals_[bucket.index][owner];
    codec::MessageContext message =
        context.message(static_cast<std::uint32_t>(options_.me), bucket.index);
    message.residual = {};
    message.strata = strata_for(owner);
    const std::size_t bytes = messages_of(segments).encode(values, message, buffer);
    count_encoded(segments, bytes, traffic);
    return {buffer.first(bytes), segments};
  }

  /// Adds what another rank sent me to `values`, which hold my own, exact.
  void add(Rank from, const FusionBucket& bucket, StepId step, std::span<const std::byte> frame,
           std::span<float> values) {
    decode_from<&codec::MessageCodec::decode_add>(from, deals_[bucket.index][options_.me], frame,
                                                  {step, bucket.index}, values);
  }

  /// Turns the sums of my chunk into its mean.
  void divide(const FusionBucket& bucket, std::span<float> values) const {
    for (const codec::Segment& segment : deals_[bucket.index][options_.me]) {
      for (float& value : values.subspan(segment.begin, segment.count)) value *= options_.share;
    }
  }

  /// Encodes the mean of my chunk into `buffer`, with what is left of earlier ones.
  /// @return the message; empty if I own nothing of this bucket
  std::span<const std::byte> encode_mean(const FusionBucket& bucket, const MeanContext& context,
                                         std::span<float> values, std::span<std::byte> buffer,
                                         Traffic& traffic) {
    const auto& mine = deals_[bucket.index][options_.me];
    if (mine.empty()) return {};
    const AddedSeconds timed(traffic.encode_seconds);
    const std::span<const codec::Segment> kept = residual_of(bucket);
    for (std::size_t i = 0; i < kept.size(); ++i) compensate(mine[i], kept[i], values);
    const codec::MessageContext message = {.run_seed = context.run_seed,
                                           .id = mean_id(bucket, context.step),
                                           .rank = kReducer,
                                           .density = context.density};
    const std::size_t bytes = messages_of(mine).encode(values, message, buffer);
    if (!kept.empty())
      messages_of(kept).decode_add(buffer.first(bytes), message.id, -1.0f, residual_);
    count_encoded(mine, bytes, traffic);
    return buffer.first(bytes);
  }

  /// Writes an owner's mean to its place.
  void decode_mean(std::size_t owner, Rank from, const FusionBucket& bucket, StepId step,
                   std::span<const std::byte> frame, std::span<float> values) {
    decode_from<&codec::MessageCodec::decode>(from, deals_[bucket.index][owner], frame,
                                              mean_id(bucket, step), values);
  }

 private:
  static codec::MessageId mean_id(const FusionBucket& bucket, StepId step) {
    return {step, bucket.index | kReducedBit};
  }

  void place_residuals() {
    std::size_t count = 0;
    for (const DealtSegments& of_rank : deals_) {
      auto& kept = residuals_.emplace_back(of_rank[options_.me]);
      for (codec::Segment& segment : kept) {
        segment.begin = count;
        count += segment.count;
      }
    }
    residual_.resize(count);
  }

  std::span<const codec::Segment> residual_of(const FusionBucket& bucket) const {
    if (residuals_.empty()) return {};
    return residuals_[bucket.index];
  }

  /// Returns the places of the residual's values.
  std::vector<SliceRange> places() const {
    std::vector<SliceRange> ranges;
    for (const auto& kept : residuals_) {
      for (const codec::Segment& segment : kept) {
        ranges.push_back({segment.slice, segment.first_index, segment.count});
      }
    }
    return ranges;
  }

  /// values += decay * residual; residual = values. The decoded values are subtracted from it
  /// later.
  void compensate(const codec::Segment& segment, const codec::Segment& residual,
                  std::span<float> values) {
    decay_residual(options_.feedback_decay,
                   std::span(residual_).subspan(residual.begin, residual.count));
    for (std::size_t i = 0; i < segment.count; ++i) {
      float& kept = residual_[residual.begin + i];
      kept += values[segment.begin + i];
      values[segment.begin + i] = kept;
    }
  }

  codec::MessageCodec messages_of(std::span<const codec::Segment> segments) {
    return {compressor_, segments, workspace_};
  }

  template <auto kDecode>
  void decode_from(Rank from, std::span<const codec::Segment> segments,
                   std::span<const std::byte> frame, codec::MessageId id, std::span<float> values) {
    naming_sender(options_.operation, id.step, from,
                  [&] { (messages_of(segments).*kDecode)(frame, id, 1.0f, values); });
  }

  const codec::Compressor& compressor_;
  const std::span<const DealtSegments> deals_;
  Workspace& workspace_;
  const ParticipantOptions options_;
  // Per fusion bucket, my chunk, with `begin` in the residual; empty without feedback.
  std::vector<std::vector<codec::Segment>> residuals_;
  std::vector<float> residual_;  // of my second quantisation
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
        me_(group_.me),
        deals_(deal_segments(plan, compressor, ranks_)),
        most_bytes_(most_message_bytes(compressor, deals_)),
        own_(compressor, deals_, workspace_,
             {.me = me_,
              .ranks = ranks_,
              .share = group_.share,
              .reducer_feedback = options.reducer_feedback,
              .feedback_decay = options.feedback_decay,
              .operation = group_.of_host_sums ? "hierarchical" : kScatterReduce.name}) {}

  const CollectiveRow& row() const noexcept override { return kScatterReduce; }
  void visit_state(StateVisitor& visitor) override { own_.visit_state(visitor); }

  /// The chunk of which this rank is the owner is added as it is.
  std::optional<OwnParts> own_parts(const FusionBucket& bucket) const override {
    OwnParts parts;
    const DealtSegments& of_rank = deals_[bucket.index];
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      for (const codec::Segment& segment : of_rank[owner])
        (segment.compressed && owner != me_ ? parts.encoded : parts.plain).push_back(segment);
      if (owner != me_) parts.strata.resize(parts.encoded.size(), own_.strata_for(owner));
    }
    return parts;
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const DealtSegments& of_rank = deals_[bucket.index];
    Slot& slot = slot_of(context);
    encode_contributions(bucket, context, values, slot, result.traffic);
    co_await scatter(bucket, slot);
    reduce(bucket, context.step, values, slot, result.traffic);
    const std::span<const std::byte> mean =
        own_.encode_mean(bucket, context, values, slot.contributed[me_], result.traffic);
    co_await gather(bucket, mean, slot);
    decode_means(bucket, context.step, mean, values, slot, result.traffic);
    result.contribution = {.compressor = &compressor_,
                           .step = context.step,
                           .index = bucket.index,
                           .frames = slot.frames,
                           .exact = of_rank[me_]};
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

  void encode_contributions(const FusionBucket& bucket, const MeanContext& context,
                            std::span<const float> values, Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    slot.frames.clear();
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      if (owner == me_ || deals_[bucket.index][owner].empty()) continue;
      slot.frames.push_back(
          own_.encode_for(owner, bucket, context, values, slot.contributed[owner], traffic));
    }
  }

  comm::Transfers::Awaiter scatter(const FusionBucket& bucket, Slot& slot) {
    const DealtSegments& of_rank = deals_[bucket.index];
    slot.outgoing.clear();
    slot.incoming.clear();
    std::size_t next = 0;
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (!of_rank[peer].empty()) {
        slot.outgoing.push_back({group_.ranks[peer], slot.frames[next++].bytes});
      }
      if (!of_rank[me_].empty()) {
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
  void reduce(const FusionBucket& bucket, StepId step, std::span<float> values, const Slot& slot,
              Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    for (const comm::Incoming& in : slot.incoming) {
      own_.add(in.from, bucket, step, in.buffer.first(in.bytes), values);
    }
    own_.divide(bucket, values);
  }

  comm::Transfers::Awaiter gather(const FusionBucket& bucket, std::span<const std::byte> mean,
                                  Slot& slot) {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (!mean.empty()) slot.outgoing.push_back({group_.ranks[peer], mean});
      if (!deals_[bucket.index][peer].empty()) {
        slot.incoming.push_back({group_.ranks[peer], slot.received[peer], 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      group_.of_host_sums ? "hierarchical: means to all hosts"
                                                          : "scatter-reduce: means to everyone");
  }

  /// Every value belongs to one segment, and every segment to one rank.
  void decode_means(const FusionBucket& bucket, StepId step, std::span<const std::byte> mean,
                    std::span<float> values, const Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    if (!mean.empty()) own_.decode_mean(me_, group_.ranks[me_], bucket, step, mean, values);
    for (const comm::Incoming& in : slot.incoming) {
      const auto owner = std::lower_bound(group_.ranks.begin(), group_.ranks.end(), in.from);
      own_.decode_mean(static_cast<std::size_t>(owner - group_.ranks.begin()), in.from, bucket,
                       step, in.buffer.first(in.bytes), values);
    }
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  const Group group_;
  const std::size_t ranks_, me_;
  const std::vector<DealtSegments> deals_;  // per fusion bucket, by its index
  const std::size_t most_bytes_;            // of a message
  Workspace workspace_;
  Participant own_;
  std::array<Slot, kMaxSlots> slots_;
};

/// All messages are kept instead of sent. An owner's own values, which it adds as they are, are
/// kept, too: they are of the chunk that it owns, so those of all workers fill one flat buffer.
class WorkerScatterReduce final : public WorkerMean {
 public:
  explicit WorkerScatterReduce(const WorkerParts& parts)
      : compressor_(parts.compressor),
        workers_(static_cast<std::size_t>(parts.workers)),
        deals_(deal_segments(parts.plan, parts.compressor, workers_)),
        buffer_(workers_ * most_message_bytes(parts.compressor, deals_)),
        owned_(parts.plan.front().end),
        sent_(parts.plan.size(), std::vector<Sent>(workers_)) {
    participants_.reserve(workers_);
    for (std::size_t w = 0; w < workers_; ++w)
      participants_.emplace_back(parts.compressor, deals_, workspace_,
                                 ParticipantOptions{.me = w,
                                                    .ranks = workers_,
                                                    .share = 1.0f / static_cast<float>(workers_),
                                                    .reducer_feedback = parts.reducer_feedback,
                                                    .feedback_decay = parts.feedback_decay,
                                                    .operation = kScatterReduce.name});
  }

  const CollectiveRow& row() const noexcept override { return kScatterReduce; }

  void visit_state(StateVisitor& visitor) override {
    for (std::size_t w = 0; w < workers_; ++w)
      visit_in(visitor, fmt::format("worker {}", w), participants_[w]);
  }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext& context,
            std::span<const float> values, Traffic& traffic) override {
    const AddedSeconds timed(traffic.encode_seconds);
    const auto me = static_cast<std::size_t>(worker);
    Sent& sent = sent_[bucket.index][me];
    sent.step = context.step;
    sent.frames.clear();
    std::size_t bytes = 0;
    for (std::size_t owner = 0; owner < workers_; ++owner) {
      if (owner == me || deals_[bucket.index][owner].empty()) continue;
      sent.frames.push_back(participants_[me].encode_for(
          owner, bucket, context, values, std::span(buffer_).subspan(bytes), traffic));
      bytes += sent.frames.back().bytes.size();
      count_sent(sent.frames.back().bytes.size(), 1, traffic);
    }
    sent.keep(std::span(buffer_).first(bytes));
    for (const codec::Segment& segment : deals_[bucket.index][me])
      std::ranges::copy(values.subspan(segment.begin, segment.count),
                        owned_.begin() + static_cast<std::ptrdiff_t>(segment.begin));
  }

  void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            Traffic& traffic) override {
    reduce(bucket, context.step, values, traffic);
    for (std::size_t owner = 0; owner < workers_; ++owner) {
      const std::span<const std::byte> mean =
          participants_[owner].encode_mean(bucket, context, values, buffer_, traffic);
      if (mean.empty()) continue;
      count_sent(mean.size(), workers_ - 1, traffic);
      const AddedSeconds timed(traffic.decode_seconds);
      participants_[owner].decode_mean(owner, static_cast<Rank>(owner), bucket, context.step, mean,
                                       values);
    }
  }

  Contribution contribution(Rank worker, const FusionBucket& bucket) const override {
    const auto me = static_cast<std::size_t>(worker);
    const Sent& sent = sent_[bucket.index][me];
    return {.compressor = &compressor_,
            .step = sent.step,
            .index = bucket.index,
            .frames = sent.frames,
            .exact = deals_[bucket.index][me]};
  }

 private:
  /// A Sent holds a worker's messages to the owners of a bucket's other chunks, in their order.
  struct Sent {
    std::vector<std::byte> bytes;  // the messages, one after the other
    std::vector<Frame> frames;
    StepId step = 0;

    /// Copies the bytes in which the frames are now.
    void keep(std::span<const std::byte> from) {
      bytes.assign(from.begin(), from.end());
      std::size_t at = 0;
      for (Frame& frame : frames) {
        frame.bytes = std::span(bytes).subspan(at, frame.bytes.size());
        at += frame.bytes.size();
      }
    }
  };

  /// Each owner adds the others' messages in the order of ranks to its own values, as ranks do.
  void reduce(const FusionBucket& bucket, StepId step, std::span<float> values, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    std::copy_n(owned_.begin() + static_cast<std::ptrdiff_t>(bucket.begin), bucket.count(),
                values.begin() + static_cast<std::ptrdiff_t>(bucket.begin));
    for (std::size_t from = 0; from < workers_; ++from) {
      auto frame = sent_[bucket.index][from].frames.begin();
      for (std::size_t owner = 0; owner < workers_; ++owner) {
        if (owner == from || deals_[bucket.index][owner].empty()) continue;
        participants_[owner].add(static_cast<Rank>(from), bucket, step, (frame++)->bytes, values);
      }
    }
    for (const Participant& owner : participants_) owner.divide(bucket, values);
  }

  const codec::Compressor& compressor_;
  const std::size_t workers_;
  const std::vector<DealtSegments> deals_;  // per fusion bucket, by its index
  Workspace workspace_;
  std::vector<std::byte> buffer_;          // of the messages of one worker
  std::vector<float> owned_;               // a flat buffer: what each owner has of its own chunk
  std::vector<std::vector<Sent>> sent_;    // (buckets, workers)
  std::vector<Participant> participants_;  // by worker
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

std::unique_ptr<WorkerMean> make_worker_scatter_reduce(const WorkerParts& parts) {
  require_carries(kScatterReduce, parts.compressor);
  return std::make_unique<WorkerScatterReduce>(parts);
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
          return make_scatter_reduce(
              parts.comm, parts.compressor, parts.plan,
              {.reducer_feedback = parts.reducer_feedback, .feedback_decay = parts.feedback_decay});
        },
    .make_for_workers = make_worker_scatter_reduce,
    .calibrates = true,
    .takes_exact_grades = true,
    .carries_int8_segments = true};

}  // namespace eqt::collective
