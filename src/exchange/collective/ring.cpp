// SPDX-License-Identifier: Apache-2.0
// Ring: partial sums of n chunks are passed round a ring of ranks and encoded again at every hop.
// The messages with the complete sums are then passed round once more, unchanged.
//
// m = frame bytes of d values, n ranks.
// Source   P. Patarasuk, X. Yuan, J. Parallel Distrib. Comput. 69 (2009) (the ring; exact sums)
// Rounds   2(n-1)
// Sent     2 * m * (n-1)/n bytes per rank (headers and the last segments aside)
// Decode   about 2d values per rank, encode d
// Lossy    n times in a row. Chunk c starts at rank c; with S_k the exact sum of the first k ranks'
//          values in ring order, D_0 = 0 and unbiased encodings Q of relative variance eps with
//          independent streams,
//            D_k = Q(D_{k-1} + g_k),
//            E|D_k - S_k|^2 <= (1 + eps) E|D_{k-1} - S_{k-1}|^2 + eps |S_k|^2,
//          since the new error has mean 0 given all earlier ones. Hence
//            E|out - mean|^2 <= (eps/n^2) sum_{k=1..n} (1 + eps)^(n-k) |S_k|^2.
//          To first order in eps that is eps |g|^2 (n+1)(2n+1)/(6n) for equal values on all ranks
//          and eps |g|^2 (n+1)/(2n) for independent ones: n/3 and n/4 times scatter-reduce's.
//          Lossless codecs: every sum is in float32, in ring order from rank c.
//
// Error feedback. Every rank encodes each chunk exactly once, and only it knows that encoding's
// error, e_k = D_{k-1} + g_k - D_k. If each rank keeps it as its residual, these telescope: sum_k
// e_k = S_n - D_n, which is all that was not applied. So a rank's contribution is the change that
// it made to the sum, g_k - e_k = D_k - D_{k-1}, and there is no second stage.
//
// A segment is assigned to the chunk that has the fewest values of the model so far, so fusion
// buckets change neither which values share a norm nor the order in which ranks are added. A rank
// draws once per value and step, so the stream is a new one at every hop.

#include <algorithm>
#include <array>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/partial_sums.hpp"
#include "collective/segment_owners.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

class Ring final : public Collective {
 public:
  Ring(comm::Communicator& comm, const codec::Compressor& compressor,
       std::span<const FusionBucket> plan)
      : comm_(comm),
        compressor_(compressor),
        coder_(compressor, "ring"),
        ranks_(static_cast<std::size_t>(comm.size())),
        me_(static_cast<std::size_t>(comm.rank())),
        chunks_(deal_segments(plan, compressor, ranks_)) {
    for (const DealtSegments& chunks : chunks_) {
      for (const auto& segments : chunks) {
        most_bytes_ = std::max(most_bytes_, codec::max_message_bytes(compressor, segments));
      }
    }
  }

  const CollectiveRow& row() const noexcept override { return kRing; }
  bool takes_residual() const noexcept override { return true; }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    Slot& slot = slot_of(context);
    Hop hop{bucket, context};
    for (std::size_t passed = 0; passed + 1 < ranks_; ++passed) {
      hop.number = static_cast<std::uint32_t>(passed);
      const std::size_t sent = behind(passed), received = behind(passed + 1);
      encode(hop, sent, values, slot, result.traffic);
      co_await pass(bucket, slot.encoded[sent], sent, slot.partial[received], received, slot,
                    "ring: partial sums to the next rank");
      take_message(slot, slot.partial[received]);
      add_received(hop, received, values, slot, result.traffic);
    }
    hop.number = last_hop();
    encode_sum(hop, values, slot, result.traffic);
    for (std::size_t passed = 0; passed + 1 < ranks_; ++passed) {
      const std::size_t sent = behind(passed + ranks_ - 1), received = behind(passed);
      co_await pass(bucket, slot.sums[sent], sent, slot.sums[received], received, slot,
                    "ring: sums to the next rank");
      take_message(slot, slot.sums[received]);
    }
    decode_sums(hop, values, slot, result.traffic);
    if (!compressor_.properties().lossless) report(bucket, context.step, slot, result);
  }

 private:
  struct Slot {
    std::vector<SumMessage> encoded;  // by me, by chunk
    std::vector<SumMessage>
        partial;                   // received before I added mine, by chunk; not where I was first
    std::vector<SumMessage> sums;  // of all ranks, by chunk
    std::vector<Frame> frames;
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.encoded.empty()) return slot;
    for (auto* buffers : {&slot.encoded, &slot.partial, &slot.sums}) {
      buffers->assign(ranks_, {std::vector<std::byte>(most_bytes_)});
    }
    slot.frames.reserve(2 * ranks_);
    slot.outgoing.reserve(1);
    slot.incoming.reserve(1);
    return slot;
  }

  /// The chunk that started `ranks` places behind mine in the ring. My own chunk is 0 places
  /// behind, and the one that I complete is n - 1 places behind.
  std::size_t behind(std::size_t ranks) const { return (me_ + 2 * ranks_ - ranks) % ranks_; }
  std::uint32_t last_hop() const { return static_cast<std::uint32_t>(ranks_ - 1); }
  Rank next() const { return static_cast<Rank>((me_ + 1) % ranks_); }
  Rank previous() const { return static_cast<Rank>((me_ + ranks_ - 1) % ranks_); }
  std::span<const codec::Segment> segments(const Hop& hop, std::size_t chunk) const {
    return chunks_[hop.bucket.index][chunk];
  }

  void encode(const Hop& hop, std::size_t chunk, std::span<const float> values, Slot& slot,
              Traffic& traffic) {
    if (segments(hop, chunk).empty()) return;
    SumMessage& buffer = slot.encoded[chunk];
    buffer.message = coder_.encode(hop, {.stream = static_cast<std::uint32_t>(me_)},
                                   segments(hop, chunk), values, buffer.bytes, traffic);
  }

  /// The rank that added last encodes the complete sum for all.
  void encode_sum(const Hop& hop, std::span<const float> values, Slot& slot, Traffic& traffic) {
    const std::size_t chunk = behind(ranks_ - 1);
    encode(hop, chunk, values, slot, traffic);
    slot.sums[chunk].message = slot.encoded[chunk].message;
  }

  /// One message to the next rank and one from the previous one. Chunks of small buckets may have
  /// no ranges; these are not sent.
  comm::Transfers::Awaiter pass(const FusionBucket& bucket, const SumMessage& from,
                                std::size_t sent, SumMessage& to, std::size_t received, Slot& slot,
                                const char* operation) {
    slot.outgoing.clear();
    slot.incoming.clear();
    const DealtSegments& chunks = chunks_[bucket.index];
    if (!chunks[sent].empty()) slot.outgoing.push_back({next(), from.message});
    if (!chunks[received].empty()) slot.incoming.push_back({previous(), to.bytes, 0});
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket), operation);
  }

  static void take_message(const Slot& slot, SumMessage& buffer) {
    if (!slot.incoming.empty()) {
      buffer.message = std::span(buffer.bytes).first(slot.incoming.front().bytes);
    }
  }

  void add_received(const Hop& hop, std::size_t chunk, std::span<float> values, const Slot& slot,
                    Traffic& traffic) {
    if (segments(hop, chunk).empty()) return;
    coder_.add(hop, previous(), segments(hop, chunk), slot.partial[chunk].message, 1.0f, values,
               traffic);
  }

  void decode_sums(const Hop& hop, std::span<float> values, const Slot& slot, Traffic& traffic) {
    const auto part = values.subspan(hop.bucket.begin, hop.bucket.count());
    std::fill(part.begin(), part.end(), 0.0f);
    const float share = 1.0f / static_cast<float>(ranks_);
    for (std::size_t chunk = 0; chunk < ranks_; ++chunk) {
      if (segments(hop, chunk).empty()) continue;
      const Rank from = chunk == behind(ranks_ - 1) ? static_cast<Rank>(me_) : previous();
      coder_.add(hop, from, segments(hop, chunk), slot.sums[chunk].message, share, values, traffic);
    }
  }

  /// Reports what this rank added to each sum: the sum that it sent minus the one that it received,
  /// both as decoded.
  void report(const FusionBucket& bucket, StepId step, Slot& slot, MeanResult& result) const {
    slot.frames.clear();
    for (std::uint32_t hop = 0; hop <= last_hop(); ++hop) {
      const std::size_t chunk = behind(hop);
      const auto& segments = chunks_[bucket.index][chunk];
      if (segments.empty()) continue;
      slot.frames.push_back({slot.encoded[chunk].message, segments, 1.0f, hop});
      if (hop > 0) {
        slot.frames.push_back({slot.partial[chunk].message, segments, -1.0f, hop - 1});
      }
    }
    result.contribution = {
        .compressor = &compressor_, .step = step, .index = bucket.index, .frames = slot.frames};
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  SumCoder coder_;
  const std::size_t ranks_, me_;
  const std::vector<DealtSegments> chunks_;  // per fusion bucket, by its index
  std::size_t most_bytes_ = 0;               // of a message
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_ring(comm::Communicator& comm, const codec::Compressor& compressor,
                                      std::span<const FusionBucket> plan) {
  require_carries(kRing, compressor);
  return std::make_unique<Ring>(comm, compressor, plan);
}

namespace {

std::string_view why_no_ring(const codec::Compressor& compressor) {
  const std::string_view why = why_no_partial_sums(compressor);
  return why.empty() ? why_no_segments(compressor) : why;
}

std::optional<CollectiveCost> ring_cost(const Volume& v) {
  CollectiveCost cost = owners_cost(v);
  cost.rounds = 2 * (v.ranks - 1);
  cost.quantisations = v.ranks;
  return cost;
}

}  // namespace

const CollectiveRow kRing = {
    .name = "ring",
    .about = "partial sums go round a ring of ranks, encoded again at each hop",
    .why_not = why_no_ring,
    .cost = ring_cost,
    .make =
        [](const CollectiveParts& parts) {
          return make_ring(parts.comm, parts.compressor, parts.plan);
        },
    .rounds = ring_rounds,
    .calibrates = true};

}  // namespace eqt::collective
