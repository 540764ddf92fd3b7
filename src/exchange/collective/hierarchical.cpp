// SPDX-License-Identifier: Apache-2.0
// Hierarchical mean: exact within a host, compressed between hosts.
//
// Words    H hosts, lanes = ranks of the smallest host, L of them; lane j of a host is its j-th
// rank Steps    1. Each rank gives every lane of its host the lane's values in float32; the lane
// adds
//             them in rank order.
//          2. The ranks of a lane, one a host, average these sums by messages: as allgather, or as
//             scatter-reduce where that sends less (scatter_pays).
//          3. Each lane gives the mean in float32 to all ranks of its host.
//
// d values, m = frame bytes of d values, k ranks on a host, n in all.
// Rounds   2 within the host, 1 (allgather) or 2 (scatter-reduce) between hosts
// Sent     between hosts  m/L * (H-1), or 2 * m/L * (H-1)/H, per rank that has a lane; others none
//          within a host  4d * (L-1)/L + 4d/L * (k-1) bytes per rank that has a lane,
//                         4d per rank that has none
// Decode   H * d/L, or about 2d/L, values per rank
// Lossy    as often as the collective between hosts, whose parties are the H sums; on one host
// never
//
// Segments of the model are assigned to lanes by their place in it (lanes.hpp), and a sum draws
// from the random stream of its host's number, so neither buckets nor lanes change a bit of the
// mean. With one rank per host the values and the bytes are those of allgather.
//
// The rank that encodes a sum keeps its whole error (Contribution::sums), since the other ranks of
// the host contributed exactly. So residuals still sum to what was not applied.

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/lanes.hpp"
#include "collective/messages.hpp"
#include "core/clock.hpp"

namespace eqt::collective {
namespace {

constexpr const char* kToLanes = "hierarchical: float32 values to their lanes on this host";
constexpr const char* kFromLanes = "hierarchical: means from the lanes of this host";

class Hierarchical final : public Collective {
 public:
  Hierarchical(comm::Communicator& comm, const codec::Compressor& compressor,
               std::span<const FusionBucket> plan, const HierarchicalOptions& options)
      : comm_(comm),
        compressor_(compressor),
        host_ranks_(comm.ranks_on_this_host().begin(), comm.ranks_on_this_host().end()),
        lane_(lane_of_this_rank(comm)),
        share_(1.0f / static_cast<float>(comm.size())),
        reducer_feedback_(options.reducer_feedback),
        lanes_(deal_lanes(plan, compressor, lane_count(comm))) {
    std::size_t values = 0;
    for (const FusionBucket& bucket : plan) {
      values += bucket.count();
      for (const LaneSegments& lane : lanes_[bucket.index]) {
        most_values_ = std::max(most_values_, lane.count);
      }
    }
    if (lane_ && comm.host_count() > 1) average_between_hosts(plan, values, options);
  }

  const CollectiveRow& row() const noexcept override { return kHierarchical; }
  /// Ranks without a lane do it, too: the state must have the same parts on all ranks, since a rank
  /// may resume from another one's.
  void visit_state(StateVisitor& visitor) override {
    if (!reducer_feedback_) return;
    if (scatters_) return between_hosts_->visit_state(visitor);
    visitor.placed("reducer residual", {}, [] { return std::vector<SliceRange>(); });
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const std::vector<LaneSegments>& lanes = lanes_[bucket.index];
    Slot& slot = slot_of(context);
    const comm::Route route = route_of(bucket, context.step);
    list_to_lanes(lanes, values, slot, result.traffic);
    co_await comm_.transfers().exchange(slot.outgoing, slot.incoming, route, kToLanes);
    check_lengths(kToLanes, slot);
    if (lane_) add_in_rank_order(lanes[*lane_], values, slot, result.traffic);
    if (between_hosts_ && lanes[*lane_].count > 0) {
      slot.result = {};
      co_await between_hosts_->mean(packed_[bucket.index], context, slot.mean, slot.result);
      result.traffic += slot.result.traffic;
      contribute(bucket, slot, result.contribution);
    }
    list_from_lanes(lanes, values, slot);
    co_await comm_.transfers().exchange(slot.outgoing, slot.incoming, route, kFromLanes);
    check_lengths(kFromLanes, slot);
    unpack(lanes, values, slot, result.traffic);
  }

 private:
  struct Slot {
    std::vector<std::vector<float>> packed;    // by lane: my values for it, then its mean
    std::vector<std::vector<float>> received;  // by rank of this host: its values for my lane
    std::vector<float> sum, mean;              // of my lane
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
    MeanResult result;                   // of the mean between hosts
    std::vector<Frame> frames;           // its messages, as segments of the flat buffer
    std::vector<codec::Segment> framed;  // these segments
    std::vector<codec::Segment> exact;   // what my messages do not contain
  };

  void average_between_hosts(std::span<const FusionBucket> plan, std::size_t values,
                             const HierarchicalOptions& options) {
    constexpr std::size_t kShortestSegment =
        8192;  // of those into which scatter-reduce cuts [values]
    for (const FusionBucket& bucket : plan) {
      packed_.push_back(packed_bucket(bucket, lanes_[bucket.index][*lane_]));
      std::size_t segments = 0;
      for (const LaneSegments& lane : lanes_[bucket.index]) segments += lane.segments.size();
      for (const codec::Segment& segment : packed_.back().segments)
        segments += segment.count / kShortestSegment + 1;
      most_segments_ = std::max(most_segments_, segments);
    }
    Group group = lane_group(comm_, *lane_);
    if (scatter_pays(compressor_, values / lane_count(comm_), group.size())) {
      scatters_ = true;
      between_hosts_ = make_scatter_reduce(
          comm_, compressor_, packed_,
          {.reducer_feedback = options.reducer_feedback, .feedback_decay = options.feedback_decay},
          std::move(group));
    } else {
      between_hosts_ = make_allgather(comm_, compressor_, packed_, std::move(group));
    }
  }

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.packed.empty()) return slot;
    const std::size_t lanes = lanes_.front().size();
    slot.packed.assign(lanes, std::vector<float>(most_values_));
    slot.received.assign(lane_ ? host_ranks_.size() : 0, std::vector<float>(most_values_));
    if (lane_) slot.sum.resize(most_values_);
    if (lane_) slot.mean.resize(most_values_);
    slot.outgoing.reserve(host_ranks_.size());
    slot.incoming.reserve(host_ranks_.size());
    slot.frames.reserve(static_cast<std::size_t>(comm_.host_count()));
    slot.framed.reserve(most_segments_);
    slot.exact.reserve(most_segments_);
    return slot;
  }

  bool is_my_lane(std::size_t lane) const { return lane_ && *lane_ == lane; }

  /// The values of a lane as one contiguous message.
  static std::span<float> message_of(const LaneSegments& lane, std::size_t number,
                                     std::span<float> values, Slot& slot) {
    return lane.contiguous() ? values.subspan(lane.segments.front().begin, lane.count)
                             : std::span(slot.packed[number]).first(lane.count);
  }

  void list_to_lanes(const std::vector<LaneSegments>& lanes, std::span<float> values, Slot& slot,
                     Traffic& traffic) const {
    const AddedSeconds timed(traffic.encode_seconds);
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t j = 0; j < lanes.size(); ++j) {
      const LaneSegments& lane = lanes[j];
      if (lane.count == 0) continue;
      if (is_my_lane(j)) {
        list_mates(lane.count, slot);
        continue;
      }
      const auto message = message_of(lane, j, values, slot);
      if (!lane.contiguous()) {
        auto to = message.begin();
        for (const codec::Segment& segment : lane.segments) {
          to = std::copy_n(values.data() + segment.begin, segment.count, to);
        }
      }
      slot.outgoing.push_back({host_ranks_[j], std::as_bytes(message)});
    }
  }

  void list_mates(std::size_t count, Slot& slot) const {
    for (std::size_t peer = 0; peer < host_ranks_.size(); ++peer) {
      if (host_ranks_[peer] == comm_.rank()) continue;
      const auto buffer = std::span(slot.received[peer]).first(count);
      slot.incoming.push_back({host_ranks_[peer], std::as_writable_bytes(buffer), 0});
    }
  }

  static void check_lengths(const char* operation, const Slot& slot) {
    for (const comm::Incoming& in : slot.incoming) require_bytes(in, in.buffer.size(), operation);
  }

  /// Writes the host's sum to `sum` and to `mean`, which the mean over hosts will overwrite.
  void add_in_rank_order(const LaneSegments& lane, std::span<const float> values, Slot& slot,
                         Traffic& traffic) const {
    const AddedSeconds timed(traffic.decode_seconds);
    constexpr std::size_t kAtOnce = 4096;  // values; partial sums stay in the cache
    std::size_t place = 0;
    for (const codec::Segment& segment : lane.segments) {
      for (std::size_t start = 0; start < segment.count; start += kAtOnce) {
        const std::size_t count = std::min(kAtOnce, segment.count - start);
        float* const sum = slot.sum.data() + place;
        for (std::size_t peer = 0; peer < host_ranks_.size(); ++peer) {
          const float* const from = host_ranks_[peer] == comm_.rank()
                                        ? values.data() + segment.begin + start
                                        : slot.received[peer].data() + place;
          if (peer == 0) {
            std::copy_n(from, count, sum);
          } else {
            for (std::size_t i = 0; i < count; ++i) sum[i] += from[i];
          }
        }
        keep_mean(sum, count, slot.mean.data() + place);
        place += count;
      }
    }
    if (between_hosts_) return;
    traffic.encoded_bytes += lane.count * sizeof(float);
    traffic.encoded_values += lane.count;
  }

  /// On one host the mean is complete; otherwise it starts as the sum.
  void keep_mean(const float* sum, std::size_t count, float* mean) const {
    if (between_hosts_) {
      std::copy_n(sum, count, mean);
    } else {
      for (std::size_t i = 0; i < count; ++i) mean[i] = sum[i] * share_;
    }
  }

  /// The messages between hosts, with their places in the flat buffer.
  void contribute(const FusionBucket& bucket, Slot& slot, Contribution& contribution) {
    const Contribution& between = slot.result.contribution;
    contribution = between;
    if (between.everything_exact()) return;
    const LaneSegments& mine = lanes_[bucket.index][*lane_];
    slot.framed.clear();
    slot.exact.clear();
    slot.frames.clear();
    for (const Frame& frame : between.frames) {
      const std::size_t first = slot.framed.size();
      for (const codec::Segment& segment : frame.segments) {
        slot.framed.push_back(in_flat_buffer(segment, bucket, mine));
      }
      slot.frames.push_back({frame.bytes, std::span(slot.framed).subspan(first)});
    }
    for (const codec::Segment& segment : between.exact) {
      slot.exact.push_back(in_flat_buffer(segment, bucket, mine));
    }
    for (const LaneSegments& lane : lanes_[bucket.index]) {
      if (&lane != &mine)
        slot.exact.insert(slot.exact.end(), lane.segments.begin(), lane.segments.end());
    }
    contribution.frames = slot.frames;
    contribution.exact = slot.exact;
    contribution.sums = std::span(slot.sum).first(mine.count);
    contribution.summed = mine.segments;
  }

  /// Returns the same values as a segment of the flat buffer.
  codec::Segment in_flat_buffer(codec::Segment segment, const FusionBucket& bucket,
                                const LaneSegments& mine) const {
    const auto& packed = packed_[bucket.index].segments;
    const auto after = std::upper_bound(
        packed.begin(), packed.end(), segment.begin,
        [](std::size_t place, const codec::Segment& other) { return place < other.begin; });
    const auto number = static_cast<std::size_t>(after - packed.begin()) - 1;
    segment.begin = mine.segments[number].begin + (segment.begin - packed[number].begin);
    return segment;
  }

  void list_from_lanes(const std::vector<LaneSegments>& lanes, std::span<float> values,
                       Slot& slot) const {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t j = 0; j < lanes.size(); ++j) {
      const LaneSegments& lane = lanes[j];
      if (lane.count == 0) continue;
      if (!is_my_lane(j)) {
        const auto buffer = message_of(lane, j, values, slot);
        slot.incoming.push_back({host_ranks_[j], std::as_writable_bytes(buffer), 0});
        continue;
      }
      const auto message = std::as_bytes(std::span(slot.mean).first(lane.count));
      for (const Rank peer : host_ranks_) {
        if (peer != comm_.rank()) slot.outgoing.push_back({peer, message});
      }
    }
  }

  void unpack(const std::vector<LaneSegments>& lanes, std::span<float> values, const Slot& slot,
              Traffic& traffic) const {
    const AddedSeconds timed(traffic.decode_seconds);
    for (std::size_t j = 0; j < lanes.size(); ++j) {
      if (lanes[j].contiguous() && !is_my_lane(j)) continue;  // was received in place
      const float* from = is_my_lane(j) ? slot.mean.data() : slot.packed[j].data();
      for (const codec::Segment& segment : lanes[j].segments) {
        std::copy_n(from, segment.count, values.data() + segment.begin);
        from += segment.count;
      }
    }
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  const std::vector<Rank> host_ranks_;  // the ranks of this host, ascending, this one among them
  const std::optional<std::size_t> lane_;
  const float share_;
  const bool reducer_feedback_;
  bool scatters_ = false;                               // between hosts, instead of gathering all
  const std::vector<std::vector<LaneSegments>> lanes_;  // by fusion bucket and lane
  std::vector<FusionBucket> packed_;                    // my lane's segments, one after the other
  std::unique_ptr<Collective> between_hosts_;           // null: one host, or no lane
  std::size_t most_values_ = 0;                         // of a lane in a bucket
  std::size_t most_segments_ = 0;                       // of a bucket, however they are cut
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_hierarchical(comm::Communicator& comm,
                                              const codec::Compressor& compressor,
                                              std::span<const FusionBucket> plan,
                                              const HierarchicalOptions& options) {
  require_carries(kHierarchical, compressor);
  return std::make_unique<Hierarchical>(comm, compressor, plan, options);
}

namespace {

std::string_view why_no_host_sums(const codec::Compressor& compressor) {
  const codec::Properties properties = compressor.properties();
  if (properties.votes) return "encodes the sum of a host's ranks, where each rank has a vote";
  if (properties.forgets_sent)
    return "encodes the sum of a host's ranks, where each rank remembers what it sent";
  return {};
}

/// Every rank has a lane: L = k = n/H.
std::optional<CollectiveCost> hierarchical_cost(const Volume& v) {
  if (v.hosts == 0) return {};
  const double hosts = v.hosts, lanes = static_cast<double>(v.ranks) / hosts;
  const double message = v.message_bytes / lanes, values = v.values / lanes;
  CollectiveCost cost{.rounds = lanes > 1 ? 2 : 0, .added_values = values * (lanes - 1)};
  cost.sent_bytes = 2 * 4 * values * (lanes - 1);
  cost.between_hosts_bytes = 0;
  if (v.hosts == 1) return cost;
  cost.encoded_values = values;
  cost.rounds += v.host_sums_scatter ? 2 : 1;
  cost.quantisations = v.host_sums_scatter ? 2 : 1;
  cost.between_hosts_bytes =
      v.host_sums_scatter ? 2 * message * (hosts - 1) / hosts : message * (hosts - 1);
  cost.decoded_values = v.host_sums_scatter ? 2 * values : hosts * values;
  cost.sent_bytes += *cost.between_hosts_bytes;
  return cost;
}

}  // namespace

const CollectiveRow kHierarchical = {
    .name = "hierarchical",
    .about = "float32 within a host, messages of the sums between hosts",
    .why_not = why_no_host_sums,
    .cost = hierarchical_cost,
    // On one host it compresses nothing; with one rank per host it is the same as allgather or
    // scatter-reduce.
    .is_candidate = [](int ranks, int hosts) { return hosts > 1 && hosts != ranks; },
    .make =
        [](const CollectiveParts& parts) {
          return make_hierarchical(
              parts.comm, parts.compressor, parts.plan,
              {.reducer_feedback = parts.reducer_feedback, .feedback_decay = parts.feedback_decay});
        },
    .rounds = hierarchical_rounds};

}  // namespace eqt::collective
