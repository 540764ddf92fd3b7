// SPDX-License-Identifier: Apache-2.0
#include "collective/worker_mean.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "codec/message.hpp"
#include "collective/allgather_steps.hpp"
#include "collective/mean_kernel.hpp"
#include "core/checksum.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

std::size_t place(Rank worker) { return static_cast<std::size_t>(worker); }

std::span<const float> part_of(const FusionBucket& bucket, std::span<const float> values) {
  return values.subspan(bucket.begin, bucket.count());
}

/// Keeps what each worker contributes until all have contributed.
class KeptValues {
 public:
  KeptValues(std::span<const FusionBucket> plan, int workers)
      : flat_(place(workers), std::vector<float>(plan.front().end)) {}

  void keep(Rank worker, const FusionBucket& bucket, std::span<const float> values) {
    std::ranges::copy(part_of(bucket, values),
                      flat_[place(worker)].begin() + static_cast<std::ptrdiff_t>(bucket.begin));
  }
  std::span<const float> of(Rank worker) const { return flat_[place(worker)]; }

 private:
  std::vector<std::vector<float>> flat_;  // (workers, values)
};

/// All messages are kept instead of sent. With a shared scale no worker can encode before all have
/// proposed theirs, so values are kept until then.
class WorkerAllgather final : public WorkerMean {
 public:
  WorkerAllgather(const codec::Compressor& compressor, std::span<const FusionBucket> plan,
                  int workers)
      : compressor_(compressor),
        workers_(workers),
        messages_(plan.size(), std::vector<Message>(place(workers))),
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
    const Stopwatch encode;
    if (shares_scale()) {
      kept_->keep(worker, bucket, values);
      propose_scales(compressor_, bucket, values, message(worker, bucket).own_scales);
    } else {
      write(worker, bucket, context, values, traffic);
    }
    traffic.encode_seconds += encode.seconds();
  }

  void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            Traffic& traffic) override {
    if (shares_scale()) write_all(bucket, context, traffic);
    const Stopwatch decode;
    frames_.clear();
    for (Rank w = 0; w < workers_; ++w) frames_.push_back(message(w, bucket).frame.bytes);
    mean_of_messages(compressor_,
                     {bucket, context.step, frames_, 1.0f / static_cast<float>(workers_)},
                     workspace_, values);
    traffic.decode_seconds += decode.seconds();
  }

  Contribution contribution(Rank worker, const FusionBucket& bucket) const override {
    const Message& own = messages_[bucket.index][place(worker)];
    return {.compressor = &compressor_,
            .step = own.step,
            .index = bucket.index,
            .frames = std::span(&own.frame, 1)};
  }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    Frame frame;  // of these bytes
    StepId step = 0;
    std::vector<float> own_scales;  // per segment
  };

  bool shares_scale() const noexcept { return compressor_.properties().shared_scale; }
  Message& message(Rank worker, const FusionBucket& bucket) {
    return messages_[bucket.index][place(worker)];
  }

  /// The maximum of the scales over workers; then all of them can draw.
  void write_all(const FusionBucket& bucket, const MeanContext& context, Traffic& traffic) {
    const Stopwatch encode;
    std::vector<float>& scales = scales_[bucket.index];
    scales.assign(bucket.segments.size(), 0.0f);
    for (Rank w = 0; w < workers_; ++w) {
      const std::vector<float>& theirs = message(w, bucket).own_scales;
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = std::max(scales[i], theirs[i]);
      count_sent(theirs.size() * sizeof(float), traffic);
    }
    for (Rank w = 0; w < workers_; ++w) write(w, bucket, context, kept_->of(w), traffic);
    traffic.encode_seconds += encode.seconds();
  }

  void write(Rank worker, const FusionBucket& bucket, const MeanContext& context,
             std::span<const float> values, Traffic& traffic) {
    Message& own = message(worker, bucket);
    codec::MessageContext message =
        context.message(static_cast<std::uint32_t>(worker), bucket.index);
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
    count_sent(bytes, traffic);
  }

  /// Sent to all others, with a checksum.
  void count_sent(std::size_t bytes, Traffic& traffic) const {
    const auto others = static_cast<std::uint64_t>(workers_ - 1);
    traffic.sent_bytes += (bytes + kChecksumBytes) * others;
    traffic.received_bytes += (bytes + kChecksumBytes) * others;
    traffic.messages += others;
  }

  const codec::Compressor& compressor_;
  const int workers_;
  std::vector<std::vector<Message>> messages_;  // (buckets, workers)
  std::vector<std::vector<float>> scales_;      // (buckets, segments), where they are shared
  std::optional<KeptValues> kept_;              // likewise
  std::vector<std::byte> buffer_;
  std::vector<std::span<const std::byte>> frames_;
  Workspace workspace_;
};

class WorkerDense final : public WorkerMean {
 public:
  WorkerDense(std::span<const FusionBucket> plan, int workers)
      : workers_(workers), kept_(plan, workers) {}

  const CollectiveRow& row() const noexcept override { return kDense; }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext&,
            std::span<const float> values, Traffic& traffic) override {
    kept_.keep(worker, bucket, values);
    traffic.encoded_bytes += bucket.count() * sizeof(float);
    traffic.encoded_values += bucket.count();
  }

  void mean(const FusionBucket& bucket, const MeanContext&, std::span<float> values,
            Traffic& traffic) override {
    const Stopwatch decode;
    rows_.clear();
    for (Rank w = 0; w < workers_; ++w) rows_.push_back(part_of(bucket, kept_.of(w)).data());
    mean_of_rows(rows_, 1.0f / static_cast<float>(workers_),
                 values.subspan(bucket.begin, bucket.count()), values.size());
    traffic.decode_seconds += decode.seconds();
    // All values to their owners, all means to all ranks: 2 * 4d * (n-1)/n per rank.
    const auto others = static_cast<std::uint64_t>(workers_ - 1);
    const std::uint64_t bytes =
        2 * sizeof(float) * bucket.count() * others + kChecksumBytes * messages(bucket.count());
    traffic.sent_bytes += bytes;
    traffic.received_bytes += bytes;
  }

  /// Counts the messages of all ranks: two send each other everything, more of them send each
  /// owner's part there and back.
  std::uint64_t messages(std::uint64_t values) const {
    const auto ranks = static_cast<std::uint64_t>(workers_);
    if (ranks == 2) return values > 0 ? 2 : 0;
    return 2 * std::min(ranks, values) * (ranks - 1);
  }

  Contribution contribution(Rank, const FusionBucket&) const override { return {}; }

 private:
  const int workers_;
  KeptValues kept_;
  std::vector<const float*> rows_;
};

}  // namespace

std::unique_ptr<WorkerMean> make_worker_allgather(const codec::Compressor& compressor,
                                                  std::span<const FusionBucket> plan, int workers) {
  return std::make_unique<WorkerAllgather>(compressor, plan, workers);
}

std::unique_ptr<WorkerMean> make_worker_dense(std::span<const FusionBucket> plan, int workers) {
  return std::make_unique<WorkerDense>(plan, workers);
}

}  // namespace eqt::collective
