// Each fusion bucket waits until backward has produced all its slices, then passes through
//   check finite -> compensate -> collective mean (encode, send, receive, decode) -> remember.
// Buckets set out in the plan's order on every rank, whatever order the slices came in, and several
// are under way at once (pipeline/engine.hpp).

#include "train/gradient_averaging.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "codec/finite.hpp"
#include "collective/mean_work.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "pipeline/engine.hpp"

namespace eqt::train {
namespace {

using collective::Contribution;
using pipeline::FusionBucket;

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
  VarianceProbe(std::size_t count, std::size_t buckets) : exact_(count), squares_(buckets) {}

  void begin(bool measuring) { measuring_ = measuring; }

  void before(const FusionBucket& bucket, std::span<const float> gradient) {
    if (!measuring_) return;
    const auto from = gradient.subspan(bucket.begin, bucket.count());
    std::copy(from.begin(), from.end(), part(bucket).begin());
    squares_[bucket.index].exact = square_norm(from);
  }

  void after(const FusionBucket& bucket, const Contribution& contribution) {
    if (!measuring_) return;
    contribution.subtract_from(exact_, bucket, workspace_);
    squares_[bucket.index].error = square_norm(part(bucket));
  }

  bool measuring() const noexcept { return measuring_; }

  std::optional<double> result() const {
    if (!measuring_) return {};
    // In the plan's order, not in that of arrival.
    Squares sum;
    for (const Squares& bucket : squares_) {
      sum.error += bucket.error;
      sum.exact += bucket.exact;
    }
    if (sum.exact <= 0) return {};
    return sum.error / sum.exact;
  }

 private:
  struct Squares {
    double error = 0, exact = 0;
  };

  std::span<float> part(const FusionBucket& bucket) {
    return std::span(exact_).subspan(bucket.begin, bucket.count());
  }

  std::vector<float> exact_;
  std::vector<Squares> squares_;  // by the bucket's index
  Workspace workspace_;
  bool measuring_ = false;
};

class GradientAveraging final : public Synchronizer, private collective::MeanWork {
 public:
  GradientAveraging(comm::Communicator& comm, collective::Collective& collective,
                    collective::GradientMemory* memory, std::vector<FusionBucket> plan,
                    const Layout& layout, std::span<float> gradient,
                    const GradientAveragingOptions& options)
      : MeanWork(collective),
        comm_(comm),
        collective_(collective),
        memory_(memory),
        plan_(std::move(plan)),
        layout_(layout),
        gradient_(gradient),
        options_(options),
        probe_(options.lossy ? gradient.size() : 0, plan_.size()),
        engine_(comm, plan_) {
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
    bytes_before_ = comm_.byte_count();
    finishing_since_.reset();
    running_ = true;
    changed_.notify_all();
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
      run_engine();
      running_ = false;
    }
    count_since(bytes_before_, traffic_);
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

  void run_engine() {
    prepare(context_, gradient_);
    engine_.run(*this);
  }

  /// The communication thread.
  void communicate() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || (running_ && !error_); });
      if (stop_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        run_engine();
      } catch (...) {
        error = std::current_exception();  // rethrown by finish(), on the trainer's thread
      }
      lock.lock();
      error_ = error;
      running_ = error_ != nullptr;
      changed_.notify_all();
    }
  }

  bool is_ready(const FusionBucket& bucket) override {
    if (!thread_.joinable()) return true;
    const std::lock_guard lock(mutex_);
    return pending_[bucket.index] == 0;
  }

  void wait_ready(const FusionBucket& bucket) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || pending_[bucket.index] == 0; });
    if (stop_) fail(Kind::bug, "the synchronization was given up because of another error");
  }

  /// On whichever thread communicates, like all that follows.
  void before(const FusionBucket& bucket, collective::MeanContext& context) override {
    const Stopwatch prepare;
    if (options_.fault) {
      context.step = options_.fault->strike_in_bucket(comm_.rank(), context.step, bucket.index);
    }
    require_finite(bucket);
    // In one trip over memory, unless the compensated gradient itself is wanted.
    if (fused()) {
      context.residual = residual_;
    } else if (memory_ != nullptr) {
      memory_->compensate(bucket, gradient_);
    }
    probe_.before(bucket, gradient_);
    if (adapting_) options_.adaptation->watch(bucket, gradient_);
    traffic_.encode_seconds += prepare.seconds();
  }

  void after(const FusionBucket& bucket, const collective::MeanResult& result) override {
    const Stopwatch keep;
    if (memory_ != nullptr && !fused()) memory_->remember(bucket, result.contribution);
    probe_.after(bucket, result.contribution);
    traffic_ += result.traffic;
    traffic_.encode_seconds += keep.seconds();
  }

  void waited(double seconds) override { traffic_.transfer_seconds += exposed(seconds); }

  bool fused() const { return !residual_.empty() && !probe_.measuring(); }

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
    traffic.sent_bytes += now.sent_bytes - before.sent_bytes;
    traffic.received_bytes += now.received_bytes - before.received_bytes;
    traffic.messages += now.messages - before.messages;
  }

  /// How much of a wait that ends now passed while the trainer waited in finish().
  double exposed(double transfer_seconds) {
    if (!thread_.joinable()) return transfer_seconds;
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
  pipeline::Engine engine_;
  Traffic traffic_;
  comm::ByteCount bytes_before_;
  bool adapting_ = false;  // this step's gradients change the compressor

  std::mutex mutex_;  // guards what follows; traffic_ and probe_ pass over with running_
  std::condition_variable changed_;
  std::vector<std::size_t> pending_;  // slices that a bucket still waits for
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
