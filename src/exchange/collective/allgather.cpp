// SPDX-License-Identifier: Apache-2.0
// Allgather mean: each rank sends its message to all others; each decodes all messages in rank
// order.
//
// m = frame bytes of d values, n ranks.
// Rounds   1
// Sent     m * (n-1) bytes per rank
// Decode   n * d values per rank
// Lossy    once

#include <algorithm>
#include <array>
#include <cstring>

#include "collective/allgather_steps.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/worker_mean.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

class Allgather final : public Collective {
 public:
  Allgather(comm::Communicator& comm, const codec::Compressor& compressor,
            std::span<const FusionBucket> plan, Group group)
      : comm_(comm), compressor_(compressor), group_(std::move(group)) {
    EQT_CHECK(group_.senders == nullptr || !compressor.properties().shared_scale,
              "a shared scale of some ranks only");
    for (const FusionBucket& bucket : plan) {
      most_bytes_ =
          std::max(most_bytes_, codec::max_message_bytes(compressor, std::span(bucket.segments)));
      most_segments_ = std::max(most_segments_, bucket.segments.size());
    }
  }

  const CollectiveRow& row() const noexcept override { return kAllgather; }
  // A shared scale is agreed on before the residual is added.
  bool takes_residual() const noexcept override { return !compressor_.properties().shared_scale; }

  std::optional<OwnParts> own_parts(const FusionBucket& bucket) const override {
    if (compressor_.properties().shared_scale || group_.senders != nullptr) return {};
    OwnParts parts;
    for (const codec::Segment& segment : bucket.segments)
      (segment.compressed ? parts.encoded : parts.plain).push_back(segment);
    return parts;
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    Slot& slot = slot_of(context);
    const Call call{bucket, context, values, slot, result.traffic};
    if (compressor_.properties().shared_scale) {
      const Stopwatch encode;
      propose_scales(compressor_, bucket, values, slot.own_scales);
      result.traffic.encode_seconds += encode.seconds();
      co_await to_everyone(std::as_bytes(std::span(slot.own_scales)),
                           route_of(bucket, context.step), slot,
                           group_.of_host_sums ? "hierarchical: allgather of the hosts' scales"
                                               : "allgather of scales");
      agree_on_scales(slot);
    }
    const std::span<const std::byte> mine = encode(call);
    co_await to_everyone(mine, route_of(bucket), slot,
                         group_.of_host_sums ? "hierarchical: allgather of the hosts' messages"
                                             : "allgather of gradient messages");
    decode_all(call, mine);
    if (!group_.sends(group_.me)) co_return;
    slot.frame = {mine, bucket.segments};
    result.contribution = {.compressor = &compressor_,
                           .step = context.step,
                           .index = bucket.index,
                           .frames = std::span(&slot.frame, 1)};
  }

 private:
  struct Slot {
    std::vector<std::vector<std::byte>> buffers;     // one message per rank, mine among them
    std::vector<std::span<const std::byte>> frames;  // by rank, of those that send
    std::vector<float> scales, own_scales;           // per segment: of all ranks, of this one
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
    Frame frame;
  };

  /// One unfinished mean.
  struct Call {
    const FusionBucket& bucket;
    const MeanContext& context;
    std::span<float> values;
    Slot& slot;
    Traffic& traffic;
  };

  Slot& slot_of(const MeanContext& context) {
    Slot& slot = slots_.at(context.slot);
    if (!slot.buffers.empty()) return slot;
    const std::size_t n = group_.size();
    slot.buffers.assign(n, std::vector<std::byte>(most_bytes_));
    slot.frames.reserve(n);
    slot.scales.reserve(most_segments_);
    slot.own_scales.reserve(most_segments_);
    slot.outgoing.reserve(n);
    slot.incoming.reserve(n);
    return slot;
  }

  comm::Transfers::Awaiter to_everyone(std::span<const std::byte> mine, comm::Route route,
                                       Slot& slot, const char* operation) {
    slot.outgoing.clear();
    slot.incoming.clear();
    for (std::size_t peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.me) continue;
      if (group_.sends(group_.me)) slot.outgoing.push_back({group_.ranks[peer], mine});
      if (group_.sends(peer)) slot.incoming.push_back({group_.ranks[peer], slot.buffers[peer], 0});
    }
    return comm_.transfers().exchange(slot.outgoing, slot.incoming, route, operation);
  }

  /// The maximum over ranks.
  void agree_on_scales(Slot& slot) {
    slot.scales = slot.own_scales;
    for (const comm::Incoming& in : slot.incoming) {
      require_bytes(in, slot.scales.size() * sizeof(float), "allgather of scales");
      for (std::size_t i = 0; i < slot.scales.size(); ++i) {
        float theirs = 0;
        std::memcpy(&theirs, in.buffer.data() + i * sizeof theirs, sizeof theirs);
        slot.scales[i] = std::max(slot.scales[i], theirs);
      }
    }
  }

  codec::MessageCodec messages_of(const FusionBucket& bucket) {
    return {compressor_, bucket.segments, workspace_};
  }

  std::span<const std::byte> encode(const Call& call) {
    if (!group_.sends(group_.me)) return {};
    const Stopwatch encode;
    codec::MessageContext message =
        call.context.message(static_cast<std::uint32_t>(group_.me), call.bucket.index);
    if (compressor_.properties().shared_scale) {
      message.scales = call.slot.scales;
      message.own_scales = call.slot.own_scales;
    }
    const std::span<std::byte> buffer = call.slot.buffers[group_.me];
    const std::size_t bytes = messages_of(call.bucket).encode(call.values, message, buffer);
    call.traffic.encode_seconds += encode.seconds();
    call.traffic.encoded_bytes += bytes;
    call.traffic.encoded_values += call.bucket.count();
    return buffer.first(bytes);
  }

  /// Every rank decodes the same messages in the same order.
  void decode_all(const Call& call, std::span<const std::byte> mine) {
    const Stopwatch decode;
    auto& frames = call.slot.frames;
    frames.clear();
    for (const comm::Incoming& in : call.slot.incoming) frames.push_back(in.buffer.first(in.bytes));
    if (group_.sends(group_.me)) {
      const std::ptrdiff_t before = std::ranges::count_if(
          call.slot.incoming,
          [&](const comm::Incoming& in) { return in.from < group_.ranks[group_.me]; });
      frames.insert(frames.begin() + before, mine);
    }
    try {
      if (group_.senders == nullptr) {
        mean_of_messages(compressor_, {call.bucket, call.context.step, frames, group_.share},
                         workspace_, call.values);
      } else {
        weighted_mean(call);
      }
    } catch (const Error&) {
      name_sender(call);
      throw;
    }
    call.traffic.decode_seconds += decode.seconds();
  }

  /// With equal counts the result has the same bits as a mean of the senders alone.
  void weighted_mean(const Call& call) {
    const auto& frames = call.slot.frames;
    const std::span<const float> weights = group_.senders->weights();
    if (group_.senders->equal()) {
      const float share = 1.0f / static_cast<float>(weights.size());
      mean_of_messages(compressor_, {call.bucket, call.context.step, frames, share}, workspace_,
                       call.values);
      return;
    }
    std::ranges::fill(call.values.subspan(call.bucket.begin, call.bucket.count()), 0.0f);
    for (std::size_t i = 0; i < frames.size(); ++i)
      messages_of(call.bucket)
          .decode_add(frames[i], {call.context.step, call.bucket.index}, weights[i], call.values);
  }

  /// After a message was refused: throws an error that names its sender.
  void name_sender(const Call& call) {
    const StepId step = call.context.step;
    std::size_t frame = 0;
    for (std::size_t from = 0; from < group_.size(); ++from) {
      if (!group_.sends(from)) continue;
      try {
        messages_of(call.bucket)
            .decode_add(call.slot.frames[frame++], {step, call.bucket.index}, 0, call.values);
      } catch (const Error& error) {
        pipeline::rethrow_refused(error, group_.of_host_sums ? "hierarchical" : name(), step,
                                  group_.ranks[from]);
      }
    }
  }

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  const Group group_;
  std::size_t most_bytes_ = 0, most_segments_ = 0;  // of a bucket
  Workspace workspace_;                             // never held across a pause
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan) {
  return make_allgather(comm, compressor, plan, everyone(comm));
}

std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan, Group group) {
  return std::make_unique<Allgather>(comm, compressor, plan, std::move(group));
}

namespace {

std::optional<CollectiveCost> allgather_cost(const Volume& v) {
  const double n = v.ranks;
  return CollectiveCost{.rounds = v.scales > 0 ? 2 : 1,
                        .sent_bytes = (v.message_bytes + 4 * v.scales) * (n - 1),
                        .encoded_values = v.values,
                        .decoded_values = n * v.values,
                        .quantisations = 1};
}

}  // namespace

const CollectiveRow kAllgather = {
    .name = "allgather",
    .about = "every rank sends its message to all and adds what it receives",
    .why_not = [](const codec::Compressor&) { return std::string_view(); },
    .cost = allgather_cost,
    .make =
        [](const CollectiveParts& parts) {
          require_carries(kAllgather, parts.compressor);
          return make_allgather(parts.comm, parts.compressor, parts.plan);
        },
    .make_for_workers = make_worker_allgather,
    .calibrates = true,
    .takes_exact_grades = true};

}  // namespace eqt::collective
