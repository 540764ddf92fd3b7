// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in round t, ranks exchange their partial sums with a partner at distance 2^t;
// both encode what they have and add the two decoded sums, so that they hold the same bits.
//
// m = frame bytes of d values, n = 2^T + x ranks with x < 2^T.
// Source   R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005) (exact sums, any n); top-k of
//          partial sums: S. Shi et al., ICDCS 2019, arXiv:1901.04359 (gTop-k)
// Rounds   T, and one more if x > 0
// Sent     m * T bytes per rank if x = 0. Otherwise the x extra ranks send m, their partners m more
//          than the others' m * T, and who is a partner's partner in the last round m more.
// Decode   2 T d values per rank, encode T d; 2 d and d on the extra ranks
// Lossy    T times in a row, and once more for the extra ranks' values. With S_G the exact sum of a
//          group G of 2^t ranks, D_G = Q(P_G), P of the union = D_G + D_H, and unbiased Q of
//          relative variance eps with independent streams,
//            E|D_G - S_G|^2 <= (1 + eps) E|P_G - S_G|^2 + eps |S_G|^2.  Hence
//            E|out - mean|^2 <= (eps/n^2) sum_{t=0..T-1} (1 + eps)^(T-1-t) sum_G |S_G|^2,
//          and (1 + eps)^T |g|^2 more in the sums for each extra rank. To first order that is
//          eps |g|^2 (1 - 1/n) for equal values on n = 2^T ranks, eps |g|^2 log2(n)/n for
//          independent ones.
//          Lossless codecs: all sums are in float32, the group of lower ranks first.
//
// All 2^t ranks of a group hold the same bits, so they must encode the same bytes: they draw from
// one stream, named by the group's first rank and the round.
//
// Extra ranks. The first 2x ranks form pairs; the odd one of a pair sends its values to the even
// one before the first round. In the last round only two messages are left in the whole job, each
// with 2^(T-1) ranks that have encoded it: the odd rank is sent both, by its own partner and by the
// partner's, and decodes what all decode.
//
// Error feedback. A group's error P_G - D_G is known to its 2^t ranks, each of which keeps a part
// of 2^-t of it (exact in float32). So all residuals add up to the sum of all that should have been
// sent, less the final sum. In terms of messages, a rank's contribution is
//   D_0 - D_x - sum_{t=1..T-1} 2^-t (P_t - D_t),  P_t = D_{t-1} + its partner's D_{t-1},
// where D_x is what it was sent before the first round.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/partial_sums.hpp"
#include "core/clock.hpp"
#include "core/strata.hpp"

namespace eqt::collective {
namespace {

constexpr const char* kFold = "recursive-doubling: values of an extra rank";
constexpr const char* kRound = "recursive-doubling: partial sums between partners";

class RecursiveDoubling final : public Collective {
 public:
  RecursiveDoubling(comm::Communicator& comm, const codec::Compressor& compressor,
                    std::span<const FusionBucket> plan)
      : comm_(comm),
        compressor_(compressor),
        coder_(compressor, "recursive-doubling"),
        ranks_(static_cast<std::uint32_t>(comm.size())),
        me_(static_cast<std::uint32_t>(comm.rank())),
        rounds_(static_cast<std::uint32_t>(std::bit_width(ranks_)) - 1),
        extras_(ranks_ - (1u << rounds_)) {
    for (const FusionBucket& bucket : plan) {
      most_bytes_ = std::max(most_bytes_, codec::max_message_bytes(compressor, bucket.segments));
    }
  }

  const CollectiveRow& row() const noexcept override { return kRecursiveDoubling; }
  // One rank has no round in which a residual could be encoded.
  bool takes_residual() const noexcept override { return ranks_ > 1; }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    if (ranks_ == 1) co_return;
    Slot& slot = slot_of(context);
    Hop hop{bucket, context};
    if (is_extra()) {
      encode_mine(hop, values, slot, result.traffic);
      co_await fold_out(bucket, slot);
      hop.number = rounds_;
      add_halves(hop, values, slot, result.traffic);
    } else {
      if (place() < extras_) {
        co_await fold_in(bucket, slot);
        add_extra(hop, values, slot, result.traffic);
      }
      for (std::uint32_t round = 0; round < rounds_; ++round) {
        hop.number = round + 1;
        encode_sum(hop, round, values, slot, result.traffic);
        co_await meet(bucket, round, slot);
        add_partner(hop, round, values, slot, result.traffic);
      }
    }
    divide(bucket, values, result.traffic);
    if (!compressor_.properties().lossless) report(bucket, context.step, slot, result);
  }

 private:
  struct Slot {
    std::vector<SumMessage> encoded;  // by me, by round; an extra rank has one
    std::vector<SumMessage>
        received;  // by round, and last what an extra rank sent; it receives two
    std::vector<Frame> frames;
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.encoded.empty()) return slot;
    slot.encoded.assign(is_extra() ? 1 : rounds_, {std::vector<std::byte>(most_bytes_)});
    slot.received.assign(is_extra() ? 2 : rounds_ + (place() < extras_ ? 1 : 0),
                         {std::vector<std::byte>(most_bytes_)});
    slot.frames.reserve(2 * rounds_ + 1);
    slot.outgoing.reserve(3);
    slot.incoming.reserve(2);
    return slot;
  }

  // Places 0 ... 2^T - 1 are those of the ranks that take part in all rounds.
  bool is_extra() const { return me_ < 2 * extras_ && me_ % 2 == 1; }
  std::uint32_t place() const { return me_ < 2 * extras_ ? me_ / 2 : me_ - extras_; }
  std::uint32_t partner_place(std::uint32_t round) const { return place() ^ (1u << round); }
  bool is_first(std::uint32_t round) const { return (place() >> round & 1u) == 0; }
  Rank rank_at(std::uint32_t place) const {
    return static_cast<Rank>(place < extras_ ? 2 * place : place + extras_);
  }
  Rank extra_of(std::uint32_t place) const { return rank_at(place) + 1; }

  /// The stream of a group of 2^round ranks, by its first rank; hop 0 is an extra rank's own.
  static std::uint32_t encoder(std::uint32_t rank, std::uint32_t hop) {
    constexpr std::uint32_t kRankBits = 24;
    return rank + (hop << kRankBits);
  }

  /// Ranks round against each other where they encode their own values. A rank that has added an
  /// extra rank's values does not: its words must not depend on what that rank has drawn.
  const Strata* own_strata() const {
    return me_ < 2 * extras_ && !is_extra() ? nullptr : strata_of(me_, ranks_);
  }

  void encode_mine(const Hop& hop, std::span<const float> values, Slot& slot, Traffic& traffic) {
    SumMessage& buffer = slot.encoded.front();
    buffer.message = coder_.encode(hop, {.stream = encoder(me_, 0), .strata = own_strata()},
                                   hop.bucket.segments, values, buffer.bytes, traffic);
  }

  void encode_sum(const Hop& hop, std::uint32_t round, std::span<const float> values, Slot& slot,
                  Traffic& traffic) {
    const auto leader = static_cast<std::uint32_t>(rank_at(place() >> round << round));
    const auto residual = hop.context.residual;
    const float part = std::ldexp(1.0f, -static_cast<int>(round));
    if (round > 0 && !residual.empty()) keep(hop, part, values, residual, traffic);
    SumMessage& buffer = slot.encoded[round];
    buffer.message = coder_.encode(hop,
                                   {.stream = encoder(leader, hop.number),
                                    .feedback = round == 0,
                                    .strata = round == 0 ? own_strata() : nullptr},
                                   hop.bucket.segments, values, buffer.bytes, traffic);
    if (round > 0 && !residual.empty()) {
      coder_.add(hop, comm_.rank(), hop.bucket.segments, buffer.message, -part, residual, traffic);
    }
  }

  /// residual += part * values, of which the decoded ones are subtracted afterwards.
  static void keep(const Hop& hop, float part, std::span<const float> values,
                   std::span<float> residual, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    for (std::size_t i = hop.bucket.begin; i < hop.bucket.end; ++i) residual[i] += part * values[i];
  }

  comm::Transfers::Awaiter fold_in(const FusionBucket& bucket, Slot& slot) {
    slot.outgoing.clear();
    slot.incoming.assign(1, {extra_of(place()), slot.received.back().bytes, 0});
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket), kFold);
  }

  /// My values to the partner; the last round's messages from it and from its partner.
  comm::Transfers::Awaiter fold_out(const FusionBucket& bucket, Slot& slot) {
    const Rank partner = comm_.rank() - 1;
    const Rank theirs = rank_at(partner_place(rounds_ - 1));
    slot.outgoing.assign(1, {partner, slot.encoded.front().message});
    slot.incoming.assign(1, {partner, slot.received[0].bytes, 0});
    slot.incoming.push_back({theirs, slot.received[1].bytes, 0});
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket), kRound);
  }

  comm::Transfers::Awaiter meet(const FusionBucket& bucket, std::uint32_t round, Slot& slot) {
    const std::uint32_t theirs = partner_place(round);
    const auto message = slot.encoded[round].message;
    slot.outgoing.assign(1, {rank_at(theirs), message});
    if (round + 1 == rounds_) {
      for (const std::uint32_t place : {place(), theirs}) {
        if (place < extras_) slot.outgoing.push_back({extra_of(place), message});
      }
    }
    slot.incoming.assign(1, {rank_at(theirs), slot.received[round].bytes, 0});
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route_of(bucket), kRound);
  }

  static void take_message(const comm::Incoming& in, SumMessage& buffer) {
    buffer.message = std::span(buffer.bytes).first(in.bytes);
  }

  void add_extra(const Hop& hop, std::span<float> values, Slot& slot, Traffic& traffic) {
    take_message(slot.incoming.front(), slot.received.back());
    coder_.add(hop, slot.incoming.front().from, hop.bucket.segments, slot.received.back().message,
               1.0f, values, traffic);
  }

  void add_partner(const Hop& hop, std::uint32_t round, std::span<float> values, Slot& slot,
                   Traffic& traffic) {
    take_message(slot.incoming.front(), slot.received[round]);
    set_to_sum(hop, is_first(round), slot.encoded[round], comm_.rank(), slot.received[round],
               slot.incoming.front().from, values, traffic);
  }

  void add_halves(const Hop& hop, std::span<float> values, Slot& slot, Traffic& traffic) {
    for (std::size_t i = 0; i < 2; ++i) take_message(slot.incoming[i], slot.received[i]);
    set_to_sum(hop, is_first(rounds_ - 1), slot.received[0], slot.incoming[0].from,
               slot.received[1], slot.incoming[1].from, values, traffic);
  }

  /// The group of lower places first, on both sides: addition is not associative if decoders round
  /// product and sum only once.
  void set_to_sum(const Hop& hop, bool ours_first, const SumMessage& ours, Rank our_rank,
                  const SumMessage& theirs, Rank their_rank, std::span<float> values,
                  Traffic& traffic) {
    std::array<std::span<const std::byte>, 2> messages{ours.message, theirs.message};
    std::array<Rank, 2> from{our_rank, their_rank};
    if (!ours_first) {
      std::swap(messages[0], messages[1]);
      std::swap(from[0], from[1]);
    }
    coder_.set_to_sum(hop, messages, from, values, traffic);
  }

  void divide(const FusionBucket& bucket, std::span<float> values, Traffic& traffic) const {
    const AddedSeconds timed(traffic.decode_seconds);
    const float share = 1.0f / static_cast<float>(ranks_);
    for (float& value : values.subspan(bucket.begin, bucket.count())) value *= share;
  }

  void report(const FusionBucket& bucket, StepId step, Slot& slot, MeanResult& result) const {
    slot.frames.clear();
    if (is_extra()) {
      slot.frames.push_back({slot.encoded.front().message, bucket.segments, 1.0f, 0});
    } else {
      if (place() < extras_) {
        slot.frames.push_back({slot.received.back().message, bucket.segments, -1.0f, 0});
      }
      for (std::uint32_t round = 0; round < rounds_; ++round) report_round(bucket, round, slot);
    }
    result.contribution = {
        .compressor = &compressor_, .step = step, .index = bucket.index, .frames = slot.frames};
  }

  /// My part of D_round, minus my part of the next round's sum if that is encoded again.
  void report_round(const FusionBucket& bucket, std::uint32_t round, Slot& slot) const {
    const float part = std::ldexp(1.0f, -static_cast<int>(round));
    const float next_part = round + 1 < rounds_ ? part / 2 : 0.0f;
    const std::uint32_t hop = round + 1;
    slot.frames.push_back({slot.encoded[round].message, bucket.segments, part - next_part, hop});
    if (next_part > 0) {
      slot.frames.push_back({slot.received[round].message, bucket.segments, -next_part, hop});
    }
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  SumCoder coder_;
  const std::uint32_t ranks_, me_;
  const std::uint32_t rounds_;  // T
  const std::uint32_t extras_;  // x
  std::size_t most_bytes_ = 0;  // of a message
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_recursive_doubling(comm::Communicator& comm,
                                                    const codec::Compressor& compressor,
                                                    std::span<const FusionBucket> plan) {
  require_carries(kRecursiveDoubling, compressor);
  return std::make_unique<RecursiveDoubling>(comm, compressor, plan);
}

namespace {

/// n = 2^T + x ranks: the x extra ones first send their values and finally receive both messages of
/// the last round.
std::optional<CollectiveCost> doubling_cost(const Volume& v) {
  const auto n = static_cast<unsigned>(v.ranks);
  const int doublings = static_cast<int>(std::bit_width(n)) - 1;
  const double power = std::bit_floor(n), extra = n - power, ranks = n;
  return CollectiveCost{.rounds = doublings + (extra > 0 ? 1 : 0),
                        .sent_bytes = v.message_bytes * (doublings * power + 3 * extra) / ranks,
                        .encoded_values = v.values * (doublings * power + extra) / ranks,
                        .decoded_values = v.values * (2 * doublings * power + 3 * extra) / ranks,
                        .quantisations = doublings + (extra > 0 ? 1 : 0)};
}

}  // namespace

const CollectiveRow kRecursiveDoubling = {
    .name = "recursive-doubling",
    .about = "partners exchange partial sums in log2 rounds; for small models",
    .why_not = why_no_partial_sums,
    .cost = doubling_cost,
    .make =
        [](const CollectiveParts& parts) {
          return make_recursive_doubling(parts.comm, parts.compressor, parts.plan);
        },
    .rounds = doubling_rounds,
    .calibrates = true};

}  // namespace eqt::collective
