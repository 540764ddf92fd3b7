// SPDX-License-Identifier: Apache-2.0
// Integer: all ranks agree on a scale per bucket, quantise against it, and the owner of a segment
// adds codes as integers. Nothing is decoded before all ranks have the sums.
//
// Source   scaler sharing as in TernGrad (Wen et al. 2017); integer sums as in SwitchML (Sapio et
//          al. 2021) and IntSGD (Mishchenko et al. 2022), here without a switch or an allreduce
// Symbols  d values, B values per scale, s largest code, n ranks; b = ceil(log2(2 s + 1)) bits of a
//          code, w = ceil(log2(2 n s + 1)) bits of a sum
// Rounds   3; 2 for two ranks, which send each other all codes and both add them
// Sent     4 (d/B) (n-1) + (d/8) (b + w) (n-1)/n bytes per rank (headers and the last segments
//          aside); two ranks 4 d/B + d b / 8
// Decode   d values per rank for any n; adding d codes costs a fraction of that
// Lossy    once, and unbiased where the codec is: independent errors of n ranks average out
//
// Segments are multiples of the codec's buckets and assigned to ranks as in scatter_reduce.cpp. If
// a scale belongs to a whole tensor, its segments share it. Integer sums do not depend on the
// order, so neither owners nor fusion buckets change a bit.

#include <algorithm>
#include <array>
#include <vector>

#include "codec/integer/integer_message.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/segment_owners.hpp"
#include "core/clock.hpp"
#include "core/strata.hpp"

namespace eqt::collective {
namespace {

constexpr std::size_t kTensorSegment = 8192;  // values, where scales belong to tensors

/// One fusion bucket, cut into chunks.
struct Chunks {
  std::vector<codec::ScaledSegment> whole;                 // its segments
  std::vector<std::vector<codec::ScaledSegment>> of_rank;  // the segments that a rank adds
  std::size_t scales = 0;
};

class Integer final : public Collective {
 public:
  Integer(comm::Communicator& comm, const codec::Compressor& compressor,
          std::unique_ptr<codec::IntegerCodec> codec, std::span<const FusionBucket> plan)
      : comm_(comm),
        messages_(std::move(codec), static_cast<std::uint32_t>(comm.size())),
        ranks_(static_cast<std::size_t>(comm.size())),
        me_(static_cast<std::size_t>(comm.rank())),
        segment_length_(messages_.codec().bucket_size() == 0
                            ? kTensorSegment
                            : pipeline::segment_length(compressor)) {
    deal_segments(plan);
    for (const Chunks& chunks : chunks_) {
      most_scales_ = std::max(most_scales_, chunks.scales);
      for (const auto& segments : chunks.of_rank) {
        most_codes_bytes_ = std::max(most_codes_bytes_, messages_.codes_bytes(segments));
        most_sums_bytes_ = std::max(most_sums_bytes_, messages_.sums_bytes(segments));
      }
    }
  }

  const CollectiveRow& row() const noexcept override { return kInteger; }
  bool takes_residual() const noexcept override { return true; }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const Chunks& chunks = chunks_[bucket.index];
    Slot& slot = slot_of(context);
    propose_scales(bucket, chunks, context, values, slot, result.traffic);
    if (chunks.scales > 0) co_await spread_scales(bucket, slot);
    agree_on_scales(bucket, context.step, slot, result.traffic);
    write_codes(bucket, chunks, context, values, slot, result.traffic);
    co_await to_owners(bucket, chunks, slot);
    add_codes(bucket, chunks, context.step, slot, result.traffic);
    if (!pair()) co_await from_owners(bucket, chunks, slot);
    read_sums(bucket, chunks, context.step, values, slot, result.traffic);
    slot.own = OwnCodes(*this, bucket, context.step, slot);
    result.contribution = {.own = &slot.own};
  }

 private:
  struct Slot;

  /// This rank's codes, decoded only if needed.
  class OwnCodes final : public Contributed {
   public:
    OwnCodes() = default;
    OwnCodes(const Integer& collective, const FusionBucket& bucket, StepId step, const Slot& slot)
        : collective_(&collective), bucket_(&bucket), step_(step), slot_(&slot) {}
    void subtract_from(std::span<float> flat) const override {
      collective_->subtract_own(*bucket_, step_, *slot_, flat);
    }

   private:
    const Integer* collective_ = nullptr;
    const FusionBucket* bucket_ = nullptr;
    StepId step_ = 0;
    const Slot* slot_ = nullptr;
  };

  struct Slot {
    std::vector<float> own_scales, scales;          // of this rank; of all
    std::vector<std::byte> proposal;                // own_scales as a message
    std::vector<std::vector<std::byte>> proposals;  // by rank
    std::vector<std::vector<std::byte>> codes;      // for each owner
    std::vector<std::vector<std::byte>> received;   // by rank: codes, then sums
    std::vector<std::byte> sums;                    // of my segments
    std::vector<std::span<const std::byte>> frames;
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
    OwnCodes own;
  };

  /// True for two ranks, which both add all codes.
  bool pair() const noexcept { return ranks_ == 2; }
  /// My codes for an owner; both owners of a pair get the same ones.
  std::size_t codes_for(std::size_t owner) const noexcept { return pair() ? me_ : owner; }

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.received.empty()) return slot;
    const std::size_t proposal_bytes = messages_.scales_bytes(most_scales_);
    slot.own_scales.reserve(most_scales_);
    slot.scales.reserve(most_scales_);
    slot.proposal.resize(proposal_bytes);
    slot.proposals.assign(ranks_, std::vector<std::byte>(proposal_bytes));
    slot.codes.assign(ranks_, std::vector<std::byte>(most_codes_bytes_));
    slot.received.assign(ranks_,
                         std::vector<std::byte>(std::max(most_codes_bytes_, most_sums_bytes_)));
    slot.sums.resize(most_sums_bytes_);
    slot.frames.reserve(ranks_);
    slot.outgoing.reserve(ranks_);
    slot.incoming.reserve(ranks_);
    return slot;
  }

  /// Assigns segments to owners from the last value of the model to the first. Fusion buckets are
  /// sent in that order, so the owner of a segment does not depend on where they are cut.
  void deal_segments(std::span<const FusionBucket> plan) {
    LeastLoaded loads(ranks_);
    for (const FusionBucket& bucket : plan) {
      Chunks chunks;
      chunks.of_rank.resize(ranks_);
      for (const codec::Segment& segment : bucket.segments) {
        chunks.whole.push_back({.segment = segment, .scale = chunks.scales, .offset = 0});
        chunks.scales += messages_.scale_count(segment);
      }
      for (std::size_t s = chunks.whole.size(); s-- > 0;) {
        deal_segment(chunks.whole[s], loads, chunks);
      }
      for (auto& segments : chunks.of_rank) std::reverse(segments.begin(), segments.end());
      if (pair()) chunks.of_rank = {chunks.whole, chunks.whole};
      chunks_.push_back(std::move(chunks));
    }
  }

  void deal_segment(const codec::ScaledSegment& whole, LeastLoaded& loads, Chunks& chunks) const {
    const std::size_t count = whole.segment.count;
    const std::size_t bucket_size = messages_.codec().bucket_size();
    for (std::size_t r = (count + segment_length_ - 1) / segment_length_; r-- > 0;) {
      const std::size_t begin = r * segment_length_;
      codec::ScaledSegment part = whole;
      part.segment.first_index += begin;
      part.segment.begin += begin;
      part.segment.count = std::min(segment_length_, count - begin);
      if (bucket_size == 0) {
        part.offset = begin;
      } else {
        part.scale += begin / bucket_size;
      }
      chunks.of_rank[loads.give(part.segment.count)].push_back(part);
    }
  }

  /// Adds the values to the residual, if there is one, and proposes the scales of the sums.
  void propose_scales(const FusionBucket& bucket, const Chunks& chunks, const MeanContext& context,
                      std::span<const float> values, Slot& slot, Traffic& traffic) const {
    const AddedSeconds timed(traffic.encode_seconds);
    std::span<const float> source = values;
    if (!context.residual.empty()) {
      for (const codec::Segment& segment : bucket.segments) {
        if (segment.compressed) compensate(segment, values, context.residual);
      }
      source = context.residual;
    }
    slot.own_scales.resize(chunks.scales);
    messages_.find_scales(chunks.whole, source, slot.own_scales);
    messages_.write_scales(slot.own_scales, {context.step, bucket.index}, proposal(slot));
    slot.scales = slot.own_scales;
    if (chunks.scales > 0) traffic.encoded_bytes += proposal(slot).size();
  }

  static void compensate(const codec::Segment& segment, std::span<const float> values,
                         std::span<float> residual) {
    const std::size_t end = segment.begin + segment.count;
    for (std::size_t i = segment.begin; i < end; ++i) residual[i] += values[i];
  }

  std::span<std::byte> proposal(Slot& slot) const {
    return std::span(slot.proposal).first(messages_.scales_bytes(slot.own_scales.size()));
  }

  comm::Transfers::Awaiter spread_scales(const FusionBucket& bucket, Slot& slot) const {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      slot.outgoing.push_back({static_cast<Rank>(peer), proposal(slot)});
      slot.incoming.push_back({static_cast<Rank>(peer), slot.proposals[peer], 0});
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      "integer: scales to everyone");
  }

  void agree_on_scales(const FusionBucket& bucket, StepId step, Slot& slot,
                       Traffic& traffic) const {
    if (slot.scales.empty()) return;
    const AddedSeconds timed(traffic.encode_seconds);
    for (const comm::Incoming& in : slot.incoming) {
      naming_sender(name(), step, in.from, [&] {
        messages_.raise_scales(in.buffer.first(in.bytes), {step, bucket.index}, slot.scales);
      });
    }
  }

  void write_codes(const FusionBucket& bucket, const Chunks& chunks, const MeanContext& context,
                   std::span<const float> values, Slot& slot, Traffic& traffic) const {
    const AddedSeconds timed(traffic.encode_seconds);
    const auto me = static_cast<std::uint32_t>(me_);
    codec::MessageContext message = context.message(me, bucket.index);
    message.strata = strata_of(me, static_cast<std::uint32_t>(ranks_));
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      const auto& segments = chunks.of_rank[owner];
      if (segments.empty() || codes_for(owner) != owner) continue;
      const auto frame = codes_frame(chunks, owner, slot);
      messages_.write_codes(segments, values, {slot.own_scales, slot.scales}, message, frame);
      traffic.encoded_bytes += frame.size();
    }
    traffic.encoded_values += bucket.count();
  }

  std::span<std::byte> codes_frame(const Chunks& chunks, std::size_t owner, Slot& slot) const {
    return std::span(slot.codes[codes_for(owner)])
        .first(messages_.codes_bytes(chunks.of_rank[owner]));
  }

  comm::Transfers::Awaiter to_owners(const FusionBucket& bucket, const Chunks& chunks,
                                     Slot& slot) const {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (!chunks.of_rank[peer].empty()) {
        slot.outgoing.push_back({static_cast<Rank>(peer), codes_frame(chunks, peer, slot)});
      }
      if (!chunks.of_rank[me_].empty()) {
        slot.incoming.push_back({static_cast<Rank>(peer), slot.received[peer], 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      "integer: codes to their owners");
  }

  void add_codes(const FusionBucket& bucket, const Chunks& chunks, StepId step, Slot& slot,
                 Traffic& traffic) const {
    const auto& mine = chunks.of_rank[me_];
    if (mine.empty()) return;
    const AddedSeconds timed(traffic.decode_seconds);
    slot.frames.resize(ranks_);
    slot.frames[me_] = codes_frame(chunks, me_, slot);
    for (const comm::Incoming& in : slot.incoming) {
      const auto frame = in.buffer.first(in.bytes);
      naming_sender(name(), step, in.from, [&] {
        messages_.check_codes(frame, mine, {step, bucket.index});
      });
      slot.frames[static_cast<std::size_t>(in.from)] = frame;
    }
    messages_.add_codes(slot.frames, mine, {step, bucket.index}, sums_frame(chunks, slot));
  }

  std::span<std::byte> sums_frame(const Chunks& chunks, Slot& slot) const {
    return std::span(slot.sums).first(messages_.sums_bytes(chunks.of_rank[me_]));
  }

  comm::Transfers::Awaiter from_owners(const FusionBucket& bucket, const Chunks& chunks,
                                       Slot& slot) const {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == me_) continue;
      if (!chunks.of_rank[me_].empty()) {
        slot.outgoing.push_back({static_cast<Rank>(peer), sums_frame(chunks, slot)});
      }
      if (!chunks.of_rank[peer].empty()) {
        slot.incoming.push_back({static_cast<Rank>(peer), slot.received[peer], 0});
      }
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket),
                                      "integer: sums to everyone");
  }

  void read_sums(const FusionBucket& bucket, const Chunks& chunks, StepId step,
                 std::span<float> values, Slot& slot, Traffic& traffic) const {
    const AddedSeconds timed(traffic.decode_seconds);
    const auto read = [&](Rank from, std::span<const std::byte> frame) {
      naming_sender(name(), step, from, [&] {
        messages_.read_sums(frame, chunks.of_rank[static_cast<std::size_t>(from)], slot.scales,
                            {step, bucket.index}, values);
      });
    };
    if (!chunks.of_rank[me_].empty()) read(static_cast<Rank>(me_), sums_frame(chunks, slot));
    if (!pair()) {
      for (const comm::Incoming& in : slot.incoming) read(in.from, in.buffer.first(in.bytes));
    }
  }

  void subtract_own(const FusionBucket& bucket, StepId step, const Slot& slot,
                    std::span<float> flat) const {
    const Chunks& chunks = chunks_[bucket.index];
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      const auto& segments = chunks.of_rank[owner];
      if (segments.empty() || codes_for(owner) != owner) continue;
      const auto frame = std::span(slot.codes[owner]).first(messages_.codes_bytes(segments));
      messages_.subtract_codes(frame, segments, slot.scales, {step, bucket.index}, flat);
    }
  }

  comm::Communicator& comm_;
  const codec::IntegerMessages messages_;
  const std::size_t ranks_, me_;
  const std::size_t segment_length_;
  std::vector<Chunks> chunks_;  // per fusion bucket, by its index
  std::size_t most_scales_ = 0, most_codes_bytes_ = 0, most_sums_bytes_ = 0;  // of a message
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_integer(comm::Communicator& comm,
                                         const codec::Compressor& compressor,
                                         std::span<const FusionBucket> plan) {
  require_carries(kInteger, compressor);
  return std::make_unique<Integer>(comm, compressor, compressor.integer_codec(), plan);
}

namespace {

std::string_view why_no_codes(const codec::Compressor& compressor) {
  if (compressor.integer_codec() != nullptr) return {};
  return "adds codes of equal steps, as terngrad, int8 and qsgd-v with compressor.coding "
         "\"fixed\" have them, unless error feedback needs steps of each rank's own";
}

/// The bytes do not include the frames' headers.
std::optional<CollectiveCost> integer_cost(const Volume& v) {
  if (v.code_bits == 0) return {};
  const double n = v.ranks, coded = v.values - v.raw_values;
  CollectiveCost cost{.rounds = v.ranks == 2 ? 2 : 3,
                      .encoded_values = v.values,
                      .decoded_values = v.values,
                      .added_values = v.ranks == 2 ? v.values : v.values * (n - 1) / n,
                      .quantisations = 1};
  const double there = coded * v.code_bits / 8 + 4 * v.raw_values;
  const double back = coded * v.sum_bits / 8 + 4 * v.raw_values;
  cost.sent_bytes =
      4 * v.shared_scales * (n - 1) + (v.ranks == 2 ? there : (there + back) * (n - 1) / n);
  return cost;
}

}  // namespace

const CollectiveRow kInteger = {
    .name = "integer",
    .about =
        "as scatter-reduce, but ranks share scales and codes are added as integers; "
        "for terngrad, qsgd-v and int8",
    .why_not = why_no_codes,
    .cost = integer_cost,
    .make = [](const CollectiveParts& parts) {
      return make_integer(parts.comm, parts.compressor, parts.plan);
    }};

}  // namespace eqt::collective
