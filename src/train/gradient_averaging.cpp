// Each fusion bucket waits until backward has produced all its slices, then passes through
//   check finite -> compensate -> collective mean (encode, send, receive, decode) -> remember.
// Buckets pass in the plan's order on every rank, whatever order the slices came in.

#include "train/gradient_averaging.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "codec/finite.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::train {
namespace {

using collective::Contribution;
using collective::FusionBucket;

// Measuring copies and decodes the own message once more; on one step in eight that stays under
// half a percent of a step.
constexpr StepId kVarianceEvery = 8;

double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

/// Relative squared error of the own message, summed over the buckets of a step.
class VarianceProbe {
 public:
  explicit VarianceProbe(std::size_t count) : exact_(count) {}

  void begin(bool measuring) {
    measuring_ = measuring;
    error_ = exact_norm_ = 0;
  }

  void before(const FusionBucket& bucket, std::span<const float> gradient) {
    if (!measuring_) return;
    const auto from = gradient.subspan(bucket.begin, bucket.count());
    std::copy(from.begin(), from.end(), part(bucket).begin());
    exact_norm_ += square_norm(from);
  }

  void after(const FusionBucket& bucket, const Contribution& contribution) {
    if (!measuring_) return;
    contribution.subtract_from(exact_, bucket, workspace_);
    error_ += square_norm(part(bucket));
  }

  bool measuring() const noexcept { return measuring_; }

  std::optional<double> result() const {
    if (!measuring_ || exact_norm_ <= 0) return {};
    return error_ / exact_norm_;
  }

 private:
  std::span<float> part(const FusionBucket& bucket) {
    return std::span(exact_).subspan(bucket.begin, bucket.count());
  }

  std::vector<float> exact_;
  Workspace workspace_;
  bool measuring_ = false;
  double error_ = 0, exact_norm_ = 0;
};

class GradientAveraging final : public Synchronizer {
 public:
  GradientAveraging(comm::Communicator& comm, collective::Collective& collective,
                    collective::GradientMemory* memory, std::vector<FusionBucket> plan,
                    const Layout& layout, std::span<float> gradient,
                    const GradientAveragingOptions& options)
      : comm_(comm),
        collective_(collective),
        memory_(memory),
        plan_(std::move(plan)),
        layout_(layout),
        gradient_(gradient),
        options_(options),
        probe_(options.lossy ? gradient.size() : 0) {
    if (memory_ != nullptr && collective_.takes_residual()) residual_ = memory_->residual();
    map_slices_to_buckets();
    if (options_.overlap) thread_ = std::thread([this] { communicate(); });
  }

  ~GradientAveraging() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      // Only an error leaves a round unfinished; then the thread may wait for a peer that never
      // comes.
      if (running_) comm_.cancel();
    }
    changed_.notify_all();
    thread_.join();
  }

  void begin(StepId step, std::uint64_t epoch) override {
    const std::lock_guard lock(mutex_);
    context_ = {.run_seed = options_.run_seed, .step = step, .density = {}, .residual = {}};
    if (options_.density) context_.density = options_.density(epoch);
    std::copy(slices_of_bucket_.begin(), slices_of_bucket_.end(), pending_.begin());
    probe_.begin(options_.lossy && step % kVarianceEvery == 0);
    traffic_ = {};
    adapting_ = options_.adaptation != nullptr && options_.adaptation->watches(step);
    finishing_since_.reset();
    next_ = 0;
    running_ = true;
  }

  void slice_ready(std::size_t slice) override {
    bool bucket_full = false;
    {
      const std::lock_guard lock(mutex_);
      for (const std::uint32_t bucket : buckets_of_slice_[slice]) {
        EQT_DCHECK(pending_[bucket] > 0, "slice {} was announced twice", slice);
        bucket_full |= --pending_[bucket] == 0;
      }
    }
    if (bucket_full) changed_.notify_all();
  }

  SyncResult finish() override {
    if (thread_.joinable()) {
      std::unique_lock lock(mutex_);
      finishing_since_.emplace();
      changed_.wait(lock, [this] { return !running_ || error_; });
      if (error_) std::rethrow_exception(error_);
    } else {
      finishing_since_.emplace();
      for (const FusionBucket& bucket : plan_) pass(bucket);
      running_ = false;
    }
    std::optional<std::string> note;
    if (adapting_) note = adapt();
    return {traffic_, probe_.result(), std::move(note)};
  }

 private:
  void map_slices_to_buckets() {
    buckets_of_slice_.resize(layout_.size());
    slices_of_bucket_.resize(plan_.size());
    pending_.resize(plan_.size());
    for (std::size_t s = 0; s < layout_.size(); ++s) {
      const std::size_t begin = layout_[s].offset, end = begin + layout_[s].count;
      for (const FusionBucket& bucket : plan_) {
        if (bucket.begin >= end || begin >= bucket.end) continue;
        buckets_of_slice_[s].push_back(bucket.index);
        ++slices_of_bucket_[bucket.index];
      }
    }
  }

  /// The communication thread.
  void communicate() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] {
        return stop_ || (running_ && !error_ && next_ < plan_.size() && pending_[next_] == 0);
      });
      if (stop_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        pass(plan_[next_]);
      } catch (...) {
        error = std::current_exception();  // rethrown by finish(), on the trainer's thread
      }
      lock.lock();
      error_ = error;
      ++next_;
      if (error_ || next_ == plan_.size()) {
        running_ = error_ != nullptr;
        changed_.notify_all();
      }
    }
  }

  /// One bucket, on whichever thread communicates.
  void pass(const FusionBucket& bucket) {
    const Stopwatch prepare;
    require_finite(bucket);
    // In one trip over memory, unless the compensated gradient itself is wanted.
    const bool fused = !residual_.empty() && !probe_.measuring();
    collective::MeanContext context = context_;
    if (fused) {
      context.residual = residual_;
    } else if (memory_ != nullptr) {
      memory_->compensate(bucket, gradient_);
    }
    probe_.before(bucket, gradient_);
    if (adapting_) options_.adaptation->watch(bucket, gradient_);
    double encode_seconds = prepare.seconds();

    Traffic traffic;
    const comm::ByteCount bytes_before = comm_.byte_count();
    const Contribution contribution = collective_.mean(bucket, context, gradient_, traffic);
    traffic.transfer_seconds = exposed(traffic.transfer_seconds);
    count_since(bytes_before, traffic);

    const Stopwatch after;
    if (memory_ != nullptr && !fused) memory_->remember(bucket, contribution);
    probe_.after(bucket, contribution);
    encode_seconds += after.seconds();
    traffic.encode_seconds += encode_seconds;
    traffic_ += traffic;
  }

  /// After the last bucket, on the trainer's thread: the communication thread waits for begin().
  std::optional<std::string> adapt() {
    Traffic traffic;
    const Stopwatch transfer;
    const comm::ByteCount bytes_before = comm_.byte_count();
    auto note = options_.adaptation->adapt(context_.step);
    traffic.transfer_seconds = transfer.seconds();
    count_since(bytes_before, traffic);
    traffic_ += traffic;
    return note;
  }

  void count_since(const comm::ByteCount& before, Traffic& traffic) const {
    const comm::ByteCount now = comm_.byte_count();
    traffic.sent_bytes = now.sent_bytes - before.sent_bytes;
    traffic.received_bytes = now.received_bytes - before.received_bytes;
    traffic.messages = now.messages - before.messages;
  }

  /// How much of the transfer time passed while the trainer waited in finish().
  double exposed(double transfer_seconds) {
    if (!options_.overlap) return transfer_seconds;
    const std::lock_guard lock(mutex_);
    if (!finishing_since_) return 0;
    return std::min(transfer_seconds, finishing_since_->seconds());
  }

  void require_finite(const FusionBucket& bucket) const {
    const auto part = gradient_.subspan(bucket.begin, bucket.count());
    const std::size_t bad = codec::first_non_finite(part);
    if (bad == part.size()) return;
    const std::size_t at = bucket.begin + bad;
    const auto next = std::upper_bound(
        layout_.begin(), layout_.end(), at,
        [](std::size_t value, const TensorSlice& slice) { return value < slice.offset; });
    fail(Kind::diverged,
         "step {}: the gradient of {} holds {} at index {} on rank {}; try a smaller "
         "optimizer.learning_rate or a schedule.warmup_epochs",
         context_.step, std::prev(next)->name, part[bad], at - std::prev(next)->offset,
         comm_.rank());
  }

  comm::Communicator& comm_;
  collective::Collective& collective_;
  collective::GradientMemory* const memory_;
  const std::vector<FusionBucket> plan_;
  const Layout& layout_;
  const std::span<float> gradient_;
  const GradientAveragingOptions options_;
  std::span<float> residual_;  // the memory's, if the collective takes it
  std::vector<std::vector<std::uint32_t>> buckets_of_slice_;
  std::vector<std::size_t> slices_of_bucket_;

  collective::MeanContext context_;
  VarianceProbe probe_;
  Traffic traffic_;
  bool adapting_ = false;  // this step's gradients change the compressor

  std::mutex mutex_;  // guards what follows; traffic_ and probe_ pass over with running_
  std::condition_variable changed_;
  std::vector<std::size_t> pending_;  // slices that a bucket still waits for
  std::size_t next_ = 0;              // bucket
  bool running_ = false;              // between begin() and the last bucket
  bool stop_ = false;
  std::exception_ptr error_;
  std::optional<Stopwatch> finishing_since_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Synchronizer> make_gradient_averaging(
    comm::Communicator& comm, collective::Collective& collective,
    collective::GradientMemory* memory, std::vector<FusionBucket> plan, const Layout& layout,
    std::span<float> gradient, const GradientAveragingOptions& options) {
  return std::make_unique<GradientAveraging>(comm, collective, memory, std::move(plan), layout,
                                             gradient, options);
}

}  // namespace eqt::train
