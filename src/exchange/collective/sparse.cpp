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

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/sparse/entries.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/segment_owners.hpp"
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

class Sparse final : public Collective {
 public:
  Sparse(comm::Communicator& comm, const codec::Compressor& compressor,
         std::span<const FusionBucket> plan, const SparseOptions& options)
      : comm_(comm),
        compressor_(compressor),
        entries_(codec::make_compressor(codec::kTopK)),
        raw_(codec::make_compressor(codec::kNone)),
        ranks_(static_cast<std::size_t>(comm.size())),
        me_(static_cast<std::size_t>(comm.rank())),
        feedback_(options.reducer_feedback) {
    std::vector<std::size_t> sums_of;
    owners_ = assign_owners(plan, ranks_, sums_of);
    sums_.resize(sums_of[me_]);
    most_bytes_of_.resize(ranks_);
    for (const FusionBucket& bucket : plan) {
      most_bytes_ = std::max(most_bytes_, codec::max_message_bytes(compressor, bucket.segments));
      for (std::size_t r = 0; r < ranks_; ++r) {
        const auto& segments = owners_[bucket.index].segments_of[r];
        most_bytes_of_[r] =
            std::max(most_bytes_of_[r], codec::max_message_bytes(*entries_, segments));
      }
      most_parts_ = std::max(most_parts_, owners_[bucket.index].parts_of[me_].size());
    }
    entry_counts_.reserve(most_parts_);
    value_bits_.reserve(most_parts_);
    writers_.reserve(ranks_);
    parts_.reserve(ranks_);
  }

  const CollectiveRow& row() const noexcept override { return kSparse; }
  bool takes_residual() const noexcept override { return true; }
  void visit_state(StateVisitor& visitor) override {
    if (!feedback_) return;
    visitor.placed("owner sums", sums_,
                   [this] { return places_of_sums(owners_, me_, sums_.size()); });
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const SegmentOwners& owners = owners_[bucket.index];
    Slot& slot = slot_of(context);
    encode(bucket, context, values, slot, result.traffic);
    deal(bucket, owners, context.step, values, slot, result.traffic);
    co_await exchange(bucket, owners, slot, false);
    reduce(bucket, owners, context.step, values, slot, result.traffic);
    encode_sums(bucket, owners, context.step, values, slot, result.traffic);
    co_await exchange(bucket, owners, slot, true);
    place_means(bucket, owners, context.step, values, slot, result.traffic);
    result.contribution = {.compressor = &compressor_,
                           .step = context.step,
                           .index = bucket.index,
                           .frames = std::span(&slot.own_frame, 1)};
  }

 private:
  struct Slot {
    MessageBuffer own;                                // my survivors in one message
    Frame own_frame;                                  // the same, for the contribution
    std::vector<MessageBuffer> dealt;                 // my survivors by owner; mine: then my sums
    std::vector<MessageBuffer> received;              // from each rank
    std::vector<std::span<const std::byte>> to_rank;  // messages in `dealt`
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (slot.own.size > 0) return slot;
    slot.own.reserve(most_bytes_);
    slot.dealt.resize(ranks_);
    slot.received.resize(ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      slot.dealt[r].reserve(most_bytes_of_[r]);
      if (r != me_) slot.received[r].reserve(std::max(most_bytes_of_[me_], most_bytes_of_[r]));
    }
    slot.to_rank.resize(ranks_);
    slot.outgoing.reserve(ranks_);
    slot.incoming.reserve(ranks_);
    return slot;
  }

  /// Encodes my survivors in one message, to which the contribution refers.
  void encode(const FusionBucket& bucket, const MeanContext& context, std::span<const float> values,
              Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    const std::size_t bytes =
        codec::MessageCodec(compressor_, bucket.segments, workspace_)
            .encode(values, context.message(static_cast<std::uint32_t>(me_), bucket.index),
                    slot.own.span());
    slot.own_frame = {slot.own.span().first(bytes), bucket.segments};
  }

  /// Divides its entries by owner.
  void deal(const FusionBucket& bucket, const SegmentOwners& owners, StepId step,
            std::span<const float> values, Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    writers_.clear();
    for (const MessageBuffer& buffer : slot.dealt) writers_.emplace_back(buffer.span());
    const codec::MessageId id = {step, bucket.index};
    codec::MessageReader own(compressor_, bucket.segments, slot.own_frame.bytes, id);
    for (const OwnedSegment& owned : owners.segments)
      deal_segment(owned, own.next(owned.whole), values);
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto& segments = owners.segments_of[r];
      const std::size_t bytes = writers_[r].finish(*entries_, segments, id);
      slot.to_rank[r] = slot.dealt[r].span().first(bytes);
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
        codec::sent_entries(compressor_.id(), payload, owned.whole.count, workspace_);
    parts_.resize(owned.owners.size());
    codec::deal_entries(sent.selection, owned.deal, workspace_, parts_);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      codec::MessageWriter& writer = writers_[owned.owners[p]];
      writer.wrote(codec::write_entries(parts_[p], owned.deal.size_of(p), sent.coding(), workspace_,
                                        writer.space()));
    }
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
        slot.outgoing.push_back({rank, slot.to_rank[sent_for]});
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
    const auto part = values.subspan(bucket.begin, bucket.count());
    std::fill(part.begin(), part.end(), 0.0f);
    const auto& segments = owners.segments_of[me_];
    entry_counts_.assign(segments.size(), 0);
    value_bits_.assign(segments.size(), 32);
    auto next = slot.incoming.begin();
    for (std::size_t r = 0; r < ranks_ && !segments.empty(); ++r) {
      std::span<const std::byte> message = slot.to_rank[me_];
      if (r != me_) {
        message = next->buffer.first(next->bytes);
        ++next;
      }
      naming_sender(name(), step, static_cast<Rank>(r), [&] {
        add_message(message, segments, {step, bucket.index}, values);
      });
    }
  }

  void add_message(std::span<const std::byte> message, std::span<const codec::Segment> segments,
                   codec::MessageId id, std::span<float> values) {
    const float share = 1.0f / static_cast<float>(ranks_);
    codec::MessageReader reader(*entries_, segments, message, id);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const codec::Segment& segment = segments[s];
      const auto payload = reader.next(segment);
      if (!segment.compressed) {
        raw_->decode_add(payload, share, workspace_, values.subspan(segment.begin, segment.count));
        continue;
      }
      const codec::PayloadHead head = codec::sparse_head(payload, segment.count);
      entry_counts_[s] += head.entries;
      value_bits_[s] = std::min(value_bits_[s], head.value_bits);
      entries_->decode_add(payload, share, workspace_,
                           std::span(sums_).subspan(segment.begin, segment.count));
    }
    reader.finish();
  }

  /// Encodes the largest sums, about as many as a rank sent on average, and keeps the others.
  void encode_sums(const FusionBucket& bucket, const SegmentOwners& owners, StepId step,
                   std::span<const float> values, Slot& slot, Traffic& traffic) {
    const auto& segments = owners.segments_of[me_];
    if (segments.empty()) return;
    const AddedSeconds timed(traffic.encode_seconds);
    codec::MessageWriter writer(slot.dealt[me_].span());
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
        writer.finish(*entries_, segments, {step, bucket.index | kReducedBit});
    slot.to_rank[me_] = slot.dealt[me_].span().first(bytes);
    count_encoded(segments, bytes, traffic);
  }

  /// Sums have as many bits as the values; but where nobody keeps their error, 16 or 32.
  int bits_of_sums(std::size_t part) const {
    return feedback_ ? value_bits_[part] : std::max(value_bits_[part], 16);
  }

  void keep_rest(std::span<float> sums, std::span<const std::byte> sent) {
    if (feedback_) {
      entries_->decode_add(sent, -1.0f, workspace_, sums);
    } else {
      std::fill(sums.begin(), sums.end(), 0.0f);
    }
  }

  void place_means(const FusionBucket& bucket, const SegmentOwners& owners, StepId step,
                   std::span<float> values, const Slot& slot, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    const codec::MessageId id = {step, bucket.index | kReducedBit};
    if (!owners.segments_of[me_].empty()) {
      place_message(slot.to_rank[me_], owners, me_, id, values);
    }
    for (const comm::Incoming& in : slot.incoming) {
      const auto from = static_cast<std::size_t>(in.from);
      naming_sender(name(), step, in.from,
                    [&] { place_message(in.buffer.first(in.bytes), owners, from, id, values); });
    }
  }

  void place_message(std::span<const std::byte> message, const SegmentOwners& owners,
                     std::size_t owner, codec::MessageId id, std::span<float> values) {
    const auto& segments = owners.segments_of[owner];
    codec::MessageReader reader(*entries_, segments, message, id);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const auto payload = reader.next(segments[s]);
      if (segments[s].compressed) {
        const SegmentPart& part = owners.parts_of[owner][s];
        const OwnedSegment& owned = owners.segments[part.segment];
        codec::place_entries(payload, owned.deal, part.part, workspace_,
                             values.subspan(owned.whole.begin, owned.whole.count));
      } else if (owner != me_) {  // my own sums are already there
        raw_->decode_add(payload, 1.0f, workspace_,
                         values.subspan(segments[s].begin, segments[s].count));
      }
    }
    reader.finish();
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;               // of the survivors
  const std::unique_ptr<codec::Compressor> entries_;  // of messages to and from owners
  const std::unique_ptr<codec::Compressor> raw_;
  const std::size_t ranks_, me_;
  const bool feedback_;
  std::vector<SegmentOwners> owners_;  // per fusion bucket, by its index
  std::size_t most_bytes_ = 0, most_parts_ = 0;
  std::vector<std::size_t> most_bytes_of_;  // of a message to or from each owner
  std::vector<float> sums_;                 // of my parts; between steps: those that I kept

  // Scratch, never held across a pause.
  Workspace workspace_;
  std::vector<codec::MessageWriter> writers_;  // by owner
  std::vector<codec::Selection> parts_;
  std::vector<std::size_t> entry_counts_;  // of all ranks, by my parts
  std::vector<int> value_bits_;            // likewise, the fewest that a rank sent
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_sparse(comm::Communicator& comm,
                                        const codec::Compressor& compressor,
                                        std::span<const FusionBucket> plan,
                                        const SparseOptions& options) {
  require_carries(kSparse, compressor);
  return std::make_unique<Sparse>(comm, compressor, plan, options);
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
          return make_sparse(parts.comm, parts.compressor, parts.plan,
                             {.reducer_feedback = parts.reducer_feedback});
        }};

}  // namespace eqt::collective
