// SPDX-License-Identifier: Apache-2.0
// Allgather mean: each rank sends its message to all others; each decodes all messages in rank
// order.
//
// m = frame bytes of d values, n ranks.
// Rounds   1
// Sent     m * (n-1) bytes per rank
// Decode   n * d values per rank
// Lossy    once
//
// Workers that one process plays have the same mean, bit for bit, without messages.

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/message.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/worker_mean.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/strata.hpp"

namespace eqt::collective {
namespace {

/// The rule of the sign codecs: -1 below zero, else +1. A NaN stays NaN, so that the trainer's
/// check finds it.
void take_signs(std::span<float> mean) {
  for (float& value : mean) {
    if (value < 0) value = -1;
    if (value >= 0) value = 1;
  }
}

/// TernGrad's scaler sharing: a scale for each segment of the bucket, before any rank draws.
void propose_scales(const codec::Compressor& compressor, const FusionBucket& bucket,
                    std::span<const float> values, std::vector<float>& scales) {
  scales.clear();
  for (const codec::Segment& segment : bucket.segments) {
    scales.push_back(segment.compressed
                         ? compressor.local_scale(values.subspan(segment.begin, segment.count))
                         : 0.0f);
  }
}

/// All messages of one bucket, in the order in which they are added.
struct BucketMessages {
  const FusionBucket& bucket;
  StepId step = 0;
  std::span<const std::span<const std::byte>> frames;
  float share = 1;  // the mean is this times their sum
};

/// Replaces the bucket's part of `values` by the mean of all messages; votes are counted. Messages
/// are added in their order, because float addition is not associative and replicas must stay
/// equal.
/// @throws Error{wire} on any malformed message
void mean_of_messages(const codec::Compressor& compressor, const BucketMessages& messages,
                      Workspace& workspace, std::span<float> values) {
  const FusionBucket& bucket = messages.bucket;
  std::ranges::fill(values.subspan(bucket.begin, bucket.count()), 0.0f);
  codec::MessageCodec(compressor, bucket.segments, workspace)
      .decode_add_all(messages.frames, {messages.step, bucket.index}, messages.share, values);
  if (!compressor.properties().votes) return;
  for (const codec::Segment& segment : bucket.segments) {
    const auto mean = values.subspan(segment.begin, segment.count);
    if (segment.compressed) {
      compressor.finish_mean(mean);
    } else {
      take_signs(mean);  // one learning rate cannot suit signs and gradients
    }
  }
}

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
    parts.strata.assign(parts.encoded.size(), own_strata());
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

  const Strata* own_strata() const {
    return strata_of(static_cast<std::uint32_t>(group_.me),
                     static_cast<std::uint32_t>(group_.ranks.size()));
  }

  std::span<const std::byte> encode(const Call& call) {
    if (!group_.sends(group_.me)) return {};
    const AddedSeconds timed(call.traffic.encode_seconds);
    codec::MessageContext message =
        call.context.message(static_cast<std::uint32_t>(group_.me), call.bucket.index);
    message.strata = own_strata();
    if (compressor_.properties().shared_scale) {
      message.scales = call.slot.scales;
      message.own_scales = call.slot.own_scales;
    }
    const std::span<std::byte> buffer = call.slot.buffers[group_.me];
    const std::size_t bytes = messages_of(call.bucket).encode(call.values, message, buffer);
    call.traffic.encoded_bytes += bytes;
    call.traffic.encoded_values += call.bucket.count();
    return buffer.first(bytes);
  }

  /// Every rank decodes the same messages in the same order.
  void decode_all(const Call& call, std::span<const std::byte> mine) {
    const AddedSeconds timed(call.traffic.decode_seconds);
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

/// All messages are kept instead of sent. With a shared scale no worker can encode before all have
/// proposed theirs, so values are kept until then.
class WorkerAllgather final : public WorkerMean {
 public:
  WorkerAllgather(const codec::Compressor& compressor, std::span<const FusionBucket> plan,
                  int workers)
      : compressor_(compressor),
        workers_(workers),
        messages_(plan.size(), std::vector<Message>(place_of(workers))),
        scales_(plan.size()) {
    if (shares_scale()) kept_.emplace(plan, workers);
    std::size_t most = 0;
    for (const FusionBucket& bucket : plan)
      most = std::max(most, codec::max_message_bytes(compressor, std::span(bucket.segments)));
    buffer_.resize(most);
  }

  const CollectiveRow& row() const noexcept override { return kAllgather; }
  bool takes_residual() const noexcept override { return !shares_scale(); }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext& context,
            std::span<const float> values, Traffic& traffic) override {
    const AddedSeconds timed(traffic.encode_seconds);
    if (shares_scale()) {
      kept_->keep(worker, bucket, values);
      propose_scales(compressor_, bucket, values, message(worker, bucket).own_scales);
    } else {
      write(worker, bucket, context, values, traffic);
    }
  }

  void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            Traffic& traffic) override {
    if (shares_scale()) write_all(bucket, context, traffic);
    const AddedSeconds timed(traffic.decode_seconds);
    frames_.clear();
    for (Rank w = 0; w < workers_; ++w) frames_.push_back(message(w, bucket).frame.bytes);
    mean_of_messages(compressor_,
                     {bucket, context.step, frames_, 1.0f / static_cast<float>(workers_)},
                     workspace_, values);
  }

  Contribution contribution(Rank worker, const FusionBucket& bucket) const override {
    const Message& own = messages_[bucket.index][place_of(worker)];
    return {.compressor = &compressor_,
            .step = own.step,
            .index = bucket.index,
            .frames = std::span(&own.frame, 1)};
  }

 private:
  static std::size_t place_of(Rank worker) { return static_cast<std::size_t>(worker); }

  struct Message {
    std::vector<std::byte> bytes;
    Frame frame;  // of these bytes
    StepId step = 0;
    std::vector<float> own_scales;  // per segment
  };

  bool shares_scale() const noexcept { return compressor_.properties().shared_scale; }
  Message& message(Rank worker, const FusionBucket& bucket) {
    return messages_[bucket.index][place_of(worker)];
  }

  /// The maximum of the scales over workers; then all of them can draw.
  void write_all(const FusionBucket& bucket, const MeanContext& context, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    std::vector<float>& scales = scales_[bucket.index];
    scales.assign(bucket.segments.size(), 0.0f);
    for (Rank w = 0; w < workers_; ++w) {
      const std::vector<float>& theirs = message(w, bucket).own_scales;
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = std::max(scales[i], theirs[i]);
      count_sent(theirs.size() * sizeof(float), others(), traffic);
    }
    for (Rank w = 0; w < workers_; ++w) write(w, bucket, context, kept_->of(w), traffic);
  }

  void write(Rank worker, const FusionBucket& bucket, const MeanContext& context,
             std::span<const float> values, Traffic& traffic) {
    Message& own = message(worker, bucket);
    codec::MessageContext message =
        context.message(static_cast<std::uint32_t>(worker), bucket.index);
    message.strata =
        strata_of(static_cast<std::uint32_t>(worker), static_cast<std::uint32_t>(workers_));
    if (shares_scale()) {
      message.scales = scales_[bucket.index];
      message.own_scales = own.own_scales;
    }
    const std::size_t bytes = codec::MessageCodec(compressor_, bucket.segments, workspace_)
                                  .encode(values, message, buffer_);
    own.bytes.assign(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
    own.frame = {own.bytes, bucket.segments};
    own.step = context.step;
    traffic.encoded_bytes += bytes;
    traffic.encoded_values += bucket.count();
    count_sent(bytes, others(), traffic);
  }

  std::size_t others() const { return static_cast<std::size_t>(workers_ - 1); }

  const codec::Compressor& compressor_;
  const int workers_;
  std::vector<std::vector<Message>> messages_;  // (buckets, workers)
  std::vector<std::vector<float>> scales_;      // (buckets, segments), where they are shared
  std::optional<KeptValues> kept_;              // likewise
  std::vector<std::byte> buffer_;
  std::vector<std::span<const std::byte>> frames_;
  Workspace workspace_;
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

std::unique_ptr<WorkerMean> make_worker_allgather(const codec::Compressor& compressor,
                                                  std::span<const FusionBucket> plan, int workers) {
  return std::make_unique<WorkerAllgather>(compressor, plan, workers);
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
    .make_for_workers =
        [](const WorkerParts& parts) {
          return make_worker_allgather(parts.compressor, parts.plan, parts.workers);
        },
    .calibrates = true,
    .takes_exact_grades = true,
    .carries_int8_segments = true};

}  // namespace eqt::collective
