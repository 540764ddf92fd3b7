// SPDX-License-Identifier: Apache-2.0
// Sparse: split and reduce of top-k-like messages. Every value has an owner. All ranks send their
// survivors to the owners, which sum them, select the largest sums and send these to all ranks.
//
// Source   the second selection: S. Li, T. Hoefler, PPoPP 2022, arXiv:2201.07598 (Ok-Topk)
// Symbols  n ranks, k survivors a rank, s(k) message bytes of k entries: about k (4 + (log2(1 /
//          density) + 1.5) / 8), with 16-bit values k * 2 less
// Rounds   2
// Sent     (n-1)/n * s(k) to the owners, (n-1) * s(k/n) to everyone: about 2 s(k) (n-1)/n bytes per
//          rank however many ranks there are
// Decode   k values on their way to the owners, k on the way back; one pass over d/n sums
// Lossy    twice: each rank's selection (its error is the caller's) and the owners' among the sums
// Feedback the owner adds what it does not send back to the next step's sums, so nothing is lost;
//          without feedback it sends back every sum that is not zero, up to n k of them
// Differs  from Ok-Topk in who owns what and in the second selection (docs/collectives.md)
//
// Messages have the format of `topk` for every codec, with indices within the owner's part and the
// unchanged bits of the entries' values. Owners, selections and the order of additions depend on
// the segment alone, so fusion buckets change no bit.
//
// Workers that one process plays have the same mean, bit for bit, without messages: a participant
// computes, for a rank as for a worker, and never sends.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/sparse/entries.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/memory.hpp"
#include "collective/messages.hpp"
#include "collective/segment_owners.hpp"
#include "collective/worker_mean.hpp"
#include "core/clock.hpp"

namespace eqt::collective {
namespace {

constexpr const char* kToOwners = "sparse: survivors to their owners";
constexpr const char* kToEveryone = "sparse: reduced values to everyone";

/// Memory for the longest possible message. Its pages are only touched when needed.
struct MessageBuffer {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0;

  void reserve(std::size_t bytes) {
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    size = bytes;
  }
  std::span<std::byte> span() const { return {memory.get(), size}; }
};

/// The owners of all values, and how long messages to and from them can be.
struct Ownership {
  std::vector<std::size_t> sums_of;        // by rank; set while `buckets` is made
  std::vector<SegmentOwners> buckets;      // per fusion bucket, by its index
  std::vector<std::size_t> most_bytes_of;  // by rank: of a message to or from it
  std::size_t most_bytes = 0;              // of a rank's own message

  Ownership(const codec::Compressor& compressor, const codec::Compressor& entries,
            std::span<const FusionBucket> plan, std::size_t ranks)
      : buckets(assign_owners(plan, ranks, sums_of)), most_bytes_of(ranks) {
    for (const FusionBucket& bucket : plan) {
      most_bytes = std::max(most_bytes, codec::max_message_bytes(compressor, bucket.segments));
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto& segments = buckets[bucket.index].segments_of[r];
        most_bytes_of[r] = std::max(most_bytes_of[r], codec::max_message_bytes(entries, segments));
      }
    }
  }
};

/// The compressors of all messages.
struct Codecs {
  const codec::Compressor& survivors;
  const std::unique_ptr<codec::Compressor> entries =
      codec::make_compressor(codec::kTopK);  // of messages to and from owners
  const std::unique_ptr<codec::Compressor> raw = codec::make_compressor(codec::kNone);
};

/// The survivors of one rank are written twice: in one message, and in messages to owners.
struct Survivors {
  MessageBuffer own;                                // all survivors in one message
  Frame own_frame;                                  // the same, for the contribution
  std::vector<MessageBuffer> dealt;                 // survivors by owner
  std::vector<std::span<const std::byte>> to_rank;  // messages in `dealt`

  void reserve(const Ownership& owners) {
    own.reserve(owners.most_bytes);
    dealt.resize(owners.most_bytes_of.size());
    for (std::size_t r = 0; r < dealt.size(); ++r) dealt[r].reserve(owners.most_bytes_of[r]);
    to_rank.resize(dealt.size());
  }
};

/// A participant computes what one rank has to compute in a mean: its survivors, and the sums that
/// it owns. It sends nothing. The caller says in which order messages are added.
class Participant {
 public:
  /// Keeps references to the first three.
  Participant(const Codecs& codecs, const Ownership& owners, Workspace& workspace, std::size_t me,
              const SparseOptions& options)
      : codecs_(codecs),
        owners_(owners),
        workspace_(workspace),
        me_(me),
        ranks_(owners.sums_of.size()),
        feedback_(options.reducer_feedback),
        decay_(options.feedback_decay),
        sums_(owners.sums_of[me]) {
    std::size_t most_parts = 0;
    for (const SegmentOwners& bucket : owners.buckets)
      most_parts = std::max(most_parts, bucket.parts_of[me].size());
    entry_counts_.reserve(most_parts);
    value_bits_.reserve(most_parts);
    writers_.reserve(ranks_);
    parts_.reserve(ranks_);
  }

  void visit_state(StateVisitor& visitor) {
    if (!feedback_) return;
    visitor.placed("owner sums", sums_,
                   [this] { return places_of_sums(owners_.buckets, me_, sums_.size()); });
  }

  /// Encodes my survivors in one message, to which the contribution refers, and divides its entries
  /// by owner.
  void encode(const FusionBucket& bucket, const MeanContext& context, std::span<const float> values,
              Survivors& mine, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    const std::size_t bytes =
        codec::MessageCodec(codecs_.survivors, bucket.segments, workspace_)
            .encode(values, context.message(static_cast<std::uint32_t>(me_), bucket.index),
                    mine.own.span());
    mine.own_frame = {mine.own.span().first(bytes), bucket.segments};
    deal(bucket, context.step, values, mine, traffic);
  }

  /// Before the first add() of a bucket. What I kept of its sums decays.
  void begin_sums(const FusionBucket& bucket) {
    const auto& segments = owned(bucket).segments_of[me_];
    entry_counts_.assign(segments.size(), 0);
    value_bits_.assign(segments.size(), 32);
    for (const codec::Segment& segment : segments)
      if (segment.compressed)
        decay_residual(decay_, std::span(sums_).subspan(segment.begin, segment.count));
  }

  /// Adds what a rank sent me, or kept for me if I am that rank. The sums of raw segments are in
  /// `values`.
  void add(Rank from, const FusionBucket& bucket, StepId step, std::span<const std::byte> message,
           std::span<float> values) {
    naming_sender(kSparse.name, step, from, [&] {
      add_message(message, owned(bucket).segments_of[me_], {step, bucket.index}, values);
    });
  }

  /// Encodes the largest sums, about as many as a rank sent on average, and keeps the others.
  /// @return the message in `frame`; empty if I own nothing of this bucket
  std::span<const std::byte> encode_sums(const FusionBucket& bucket, StepId step,
                                         std::span<const float> values, std::span<std::byte> frame,
                                         Traffic& traffic) {
    const auto& segments = owned(bucket).segments_of[me_];
    if (segments.empty()) return {};
    const AddedSeconds timed(traffic.encode_seconds);
    codec::MessageWriter writer(frame);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const codec::Segment& segment = segments[s];
      if (!segment.compressed) {
        writer.raw(values.subspan(segment.begin, segment.count));
        continue;
      }
      const auto sums = std::span(sums_).subspan(segment.begin, segment.count);
      const std::size_t k =
          feedback_ ? (entry_counts_[s] + ranks_ - 1) / ranks_ : codec::kAllNonzero;
      const auto buffer = writer.space();
      const std::size_t bytes = codec::write_largest(sums, k, bits_of_sums(s), workspace_, buffer);
      keep_rest(sums, buffer.first(bytes));
      writer.wrote(bytes);
    }
    const std::size_t bytes =
        writer.finish(*codecs_.entries, segments, {step, bucket.index | kReducedBit});
    count_encoded(segments, bytes, traffic);
    return frame.first(bytes);
  }

  /// Writes an owner's means to their places. Mine of raw segments are already there.
  void place(std::size_t owner, const FusionBucket& bucket, StepId step,
             std::span<const std::byte> message, std::span<float> values) {
    naming_sender(kSparse.name, step, static_cast<Rank>(owner), [&] {
      place_message(message, owned(bucket), owner, {step, bucket.index | kReducedBit}, values);
    });
  }

 private:
  const SegmentOwners& owned(const FusionBucket& bucket) const {
    return owners_.buckets[bucket.index];
  }

  void deal(const FusionBucket& bucket, StepId step, std::span<const float> values, Survivors& mine,
            Traffic& traffic) {
    const SegmentOwners& owners = owned(bucket);
    writers_.clear();
    for (const MessageBuffer& buffer : mine.dealt) writers_.emplace_back(buffer.span());
    const codec::MessageId id = {step, bucket.index};
    codec::MessageReader own(codecs_.survivors, bucket.segments, mine.own_frame.bytes, id);
    for (const OwnedSegment& segment : owners.segments)
      deal_segment(segment, own.next(segment.whole), values);
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto& segments = owners.segments_of[r];
      const std::size_t bytes = writers_[r].finish(*codecs_.entries, segments, id);
      mine.to_rank[r] = mine.dealt[r].span().first(bytes);
      if (r != me_ && !segments.empty()) count_encoded(segments, bytes, traffic);
    }
  }

  void deal_segment(const OwnedSegment& owned, std::span<const std::byte> payload,
                    std::span<const float> values) {
    if (!owned.whole.compressed) {
      for (std::size_t p = 0; p < owned.owners.size(); ++p) {
        const std::size_t begin = p * kRawPart;
        const std::size_t count = std::min(kRawPart, owned.whole.count - begin);
        writers_[owned.owners[p]].raw(values.subspan(owned.whole.begin + begin, count));
      }
      return;
    }
    if (owned.owners.empty()) return;
    const codec::Entries sent =
        codec::sent_entries(codecs_.survivors.id(), payload, owned.whole.count, workspace_);
    parts_.resize(owned.owners.size());
    codec::deal_entries(sent.selection, owned.deal, workspace_, parts_);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      codec::MessageWriter& writer = writers_[owned.owners[p]];
      writer.wrote(codec::write_entries(parts_[p], owned.deal.size_of(p), sent.coding(), workspace_,
                                        writer.space()));
    }
  }

  void add_message(std::span<const std::byte> message, std::span<const codec::Segment> segments,
                   codec::MessageId id, std::span<float> values) {
    const float share = 1.0f / static_cast<float>(ranks_);
    codec::MessageReader reader(*codecs_.entries, segments, message, id);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const codec::Segment& segment = segments[s];
      const auto payload = reader.next(segment);
      if (!segment.compressed) {
        codecs_.raw->decode_add(payload, share, workspace_,
                                values.subspan(segment.begin, segment.count));
        continue;
      }
      const codec::PayloadHead head = codec::sparse_head(payload, segment.count);
      entry_counts_[s] += head.entries;
      value_bits_[s] = std::min(value_bits_[s], head.value_bits);
      codecs_.entries->decode_add(payload, share, workspace_,
                                  std::span(sums_).subspan(segment.begin, segment.count));
    }
    reader.finish();
  }

  /// Sums have as many bits as the values; but where nobody keeps their error, 16 or 32.
  int bits_of_sums(std::size_t part) const {
    return feedback_ ? value_bits_[part] : std::max(value_bits_[part], 16);
  }

  void keep_rest(std::span<float> sums, std::span<const std::byte> sent) {
    if (feedback_) {
      codecs_.entries->decode_add(sent, -1.0f, workspace_, sums);
    } else {
      std::fill(sums.begin(), sums.end(), 0.0f);
    }
  }

  void place_message(std::span<const std::byte> message, const SegmentOwners& owners,
                     std::size_t owner, codec::MessageId id, std::span<float> values) {
    const auto& segments = owners.segments_of[owner];
    codec::MessageReader reader(*codecs_.entries, segments, message, id);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const auto payload = reader.next(segments[s]);
      if (segments[s].compressed) {
        const SegmentPart& part = owners.parts_of[owner][s];
        const OwnedSegment& owned = owners.segments[part.segment];
        codec::place_entries(payload, owned.deal, part.part, workspace_,
                             values.subspan(owned.whole.begin, owned.whole.count));
      } else if (owner != me_) {
        codecs_.raw->decode_add(payload, 1.0f, workspace_,
                                values.subspan(segments[s].begin, segments[s].count));
      }
    }
    reader.finish();
  }

  const Codecs& codecs_;
  const Ownership& owners_;
  Workspace& workspace_;
  const std::size_t me_, ranks_;
  const bool feedback_;
  const float decay_;        // of kept sums before the next ones are added
  std::vector<float> sums_;  // of my parts; between steps: those that I kept

  // Scratch, never held across a pause.
  std::vector<codec::MessageWriter> writers_;  // by owner
  std::vector<codec::Selection> parts_;
  std::vector<std::size_t> entry_counts_;  // of all ranks, by my parts
  std::vector<int> value_bits_;            // likewise, the fewest that a rank sent
};

class Sparse final : public Collective {
 public:
  Sparse(comm::Communicator& comm, const codec::Compressor& compressor,
         std::span<const FusionBucket> plan, const SparseOptions& options)
      : comm_(comm),
        codecs_{compressor},
        ranks_(static_cast<std::size_t>(comm.size())),
        me_(static_cast<std::size_t>(comm.rank())),
        owners_(compressor, *codecs_.entries, plan, ranks_),
        own_(codecs_, owners_, workspace_, me_, options) {}

  const CollectiveRow& row() const noexcept override { return kSparse; }
  bool takes_residual() const noexcept override { return true; }
  void visit_state(StateVisitor& visitor) override { own_.visit_state(visitor); }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const SegmentOwners& owners = owners_.buckets[bucket.index];
    Slot& slot = slot_of(context);
    own_.encode(bucket, context, values, slot.mine, result.traffic);
    co_await exchange(bucket, owners, slot, false);
    reduce(bucket, owners, context.step, values, slot, result.traffic);
    slot.mine.to_rank[me_] =
        own_.encode_sums(bucket, context.step, values, slot.mine.dealt[me_].span(), result.traffic);
    co_await exchange(bucket, owners, slot, true);
    place_means(bucket, context.step, values, slot, result.traffic);
    result.contribution = {.compressor = &codecs_.survivors,
                           .step = context.step,
                           .index = bucket.index,
                           .frames = std::span(&slot.mine.own_frame, 1)};
  }

 private:
  struct Slot {
    Survivors mine;                       // of my own part: later the largest sums
    std::vector<MessageBuffer> received;  // from each rank
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (slot.mine.own.size > 0) return slot;
    slot.mine.reserve(owners_);
    slot.received.resize(ranks_);
    const std::vector<std::size_t>& most = owners_.most_bytes_of;
    for (std::size_t r = 0; r < ranks_; ++r)
      if (r != me_) slot.received[r].reserve(std::max(most[me_], most[r]));
    slot.outgoing.reserve(ranks_);
    slot.incoming.reserve(ranks_);
    return slot;
  }

  /// Sends contributions to the owners of their values, or means from the owners to all ranks.
  comm::Transfers::Awaiter exchange(const FusionBucket& bucket, const SegmentOwners& owners,
                                    Slot& slot, bool means) {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      const auto rank = static_cast<Rank>(peer);
      const std::size_t sent_for = means ? me_ : peer, received_for = means ? peer : me_;
      if (!owners.segments_of[sent_for].empty()) {
        slot.outgoing.push_back({rank, slot.mine.to_rank[sent_for]});
      }
      if (!owners.segments_of[received_for].empty()) {
        slot.incoming.push_back({rank, slot.received[peer].span(), 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      means ? kToEveryone : kToOwners);
  }

  /// Adds all ranks' messages, including mine, in rank order.
  void reduce(const FusionBucket& bucket, const SegmentOwners& owners, StepId step,
              std::span<float> values, Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    std::ranges::fill(values.subspan(bucket.begin, bucket.count()), 0.0f);
    own_.begin_sums(bucket);
    auto next = slot.incoming.begin();
    for (std::size_t r = 0; r < ranks_ && !owners.segments_of[me_].empty(); ++r) {
      std::span<const std::byte> message = slot.mine.to_rank[me_];
      if (r != me_) {
        message = next->buffer.first(next->bytes);
        ++next;
      }
      own_.add(static_cast<Rank>(r), bucket, step, message, values);
    }
  }

  void place_means(const FusionBucket& bucket, StepId step, std::span<float> values,
                   const Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    const std::span<const std::byte> mine = slot.mine.to_rank[me_];
    if (!mine.empty()) own_.place(me_, bucket, step, mine, values);
    for (const comm::Incoming& in : slot.incoming)
      own_.place(static_cast<std::size_t>(in.from), bucket, step, in.buffer.first(in.bytes),
                 values);
  }

  comm::Communicator& comm_;
  const Codecs codecs_;
  const std::size_t ranks_, me_;
  const Ownership owners_;
  Workspace workspace_;  // never held across a pause
  Participant own_;
  std::array<Slot, kMaxSlots> slots_;
};

/// All messages are kept instead of sent.
class WorkerSparse final : public WorkerMean {
 public:
  explicit WorkerSparse(const WorkerParts& parts)
      : codecs_{parts.compressor},
        workers_(static_cast<std::size_t>(parts.workers)),
        owners_(parts.compressor, *codecs_.entries, parts.plan, workers_),
        sent_(parts.plan.size(), std::vector<Sent>(workers_)) {
    written_.reserve(owners_);
    participants_.reserve(workers_);
    const SparseOptions options = {.reducer_feedback = parts.reducer_feedback,
                                   .feedback_decay = parts.feedback_decay};
    for (std::size_t w = 0; w < workers_; ++w)
      participants_.emplace_back(codecs_, owners_, workspace_, w, options);
  }

  const CollectiveRow& row() const noexcept override { return kSparse; }
  bool takes_residual() const noexcept override { return true; }

  void visit_state(StateVisitor& visitor) override {
    for (std::size_t w = 0; w < workers_; ++w)
      visit_in(visitor, fmt::format("worker {}", w), participants_[w]);
  }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext& context,
            std::span<const float> values, Traffic& traffic) override {
    const auto me = static_cast<std::size_t>(worker);
    participants_[me].encode(bucket, context, values, written_, traffic);
    sent_[bucket.index][me].keep(written_, context.step);
    for (std::size_t owner = 0; owner < workers_; ++owner)
      if (owner != me && !owners_.buckets[bucket.index].segments_of[owner].empty())
        count_sent(written_.to_rank[owner].size(), 1, traffic);
  }

  void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            Traffic& traffic) override {
    std::ranges::fill(values.subspan(bucket.begin, bucket.count()), 0.0f);
    for (std::size_t owner = 0; owner < workers_; ++owner) {
      if (owners_.buckets[bucket.index].segments_of[owner].empty()) continue;
      reduce(owner, bucket, context.step, values, traffic);
      const std::span<const std::byte> sums = participants_[owner].encode_sums(
          bucket, context.step, values, written_.dealt[owner].span(), traffic);
      count_sent(sums.size(), workers_ - 1, traffic);
      const AddedSeconds timed(traffic.decode_seconds);
      participants_[owner].place(owner, bucket, context.step, sums, values);
    }
  }

  Contribution contribution(Rank worker, const FusionBucket& bucket) const override {
    const Sent& sent = sent_[bucket.index][static_cast<std::size_t>(worker)];
    return {.compressor = &codecs_.survivors,
            .step = sent.step,
            .index = bucket.index,
            .frames = std::span(&sent.own_frame, 1)};
  }

 private:
  /// A Sent holds a worker's messages of a bucket.
  struct Sent {
    std::vector<std::byte> own;                   // all survivors in one message
    Frame own_frame;                              // of these bytes
    std::vector<std::vector<std::byte>> to_rank;  // by owner
    StepId step = 0;

    void keep(const Survivors& written, StepId in) {
      step = in;
      own.assign(written.own_frame.bytes.begin(), written.own_frame.bytes.end());
      own_frame = {own, written.own_frame.segments};
      to_rank.resize(written.to_rank.size());
      for (std::size_t r = 0; r < to_rank.size(); ++r)
        to_rank[r].assign(written.to_rank[r].begin(), written.to_rank[r].end());
    }
  };

  /// Adds all workers' messages to an owner, its own among them, in the order of ranks.
  void reduce(std::size_t owner, const FusionBucket& bucket, StepId step, std::span<float> values,
              Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    participants_[owner].begin_sums(bucket);
    for (std::size_t from = 0; from < workers_; ++from)
      participants_[owner].add(static_cast<Rank>(from), bucket, step,
                               sent_[bucket.index][from].to_rank[owner], values);
  }

  const Codecs codecs_;
  const std::size_t workers_;
  const Ownership owners_;
  Workspace workspace_;
  Survivors written_;                      // by the worker that has its turn
  std::vector<std::vector<Sent>> sent_;    // (buckets, workers)
  std::vector<Participant> participants_;  // by worker
};

}  // namespace

std::unique_ptr<Collective> make_sparse(comm::Communicator& comm,
                                        const codec::Compressor& compressor,
                                        std::span<const FusionBucket> plan,
                                        const SparseOptions& options) {
  require_carries(kSparse, compressor);
  return std::make_unique<Sparse>(comm, compressor, plan, options);
}

std::unique_ptr<WorkerMean> make_worker_sparse(const WorkerParts& parts) {
  require_carries(kSparse, parts.compressor);
  return std::make_unique<WorkerSparse>(parts);
}

const CollectiveRow kSparse = {
    .name = "sparse",
    .about =
        "each rank adds the values of its part that were sent, then all gather the largest sums; "
        "only for topk, threshold, randomk and dgc",
    .why_not = [](const codec::Compressor& c) -> std::string_view {
      return c.properties().has_entries
                 ? ""
                 : "moves the few values that topk, threshold, randomk and dgc send";
    },
    .cost = [](const Volume& v) { return std::optional(owners_cost(v, v.values / v.ranks)); },
    .make =
        [](const CollectiveParts& parts) {
          return make_sparse(
              parts.comm, parts.compressor, parts.plan,
              {.reducer_feedback = parts.reducer_feedback, .feedback_decay = parts.feedback_decay});
        },
    .make_for_workers = make_worker_sparse};

}  // namespace eqt::collective
