// SPDX-License-Identifier: Apache-2.0
// Each fusion bucket waits until backward has produced all its slices, then passes through
//   check finite -> compensate -> collective mean (encode, send, receive, decode) -> check finite
//   -> remember -> complete.
// Buckets start in the plan's order on every rank, for any order of the slices, and several are
// processed at the same time (pipeline/engine.hpp).

#include "sync/gradient_averaging.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/collective.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "pipeline/engine.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/background_thread.hpp"
#include "sync/edge_count.hpp"
#include "sync/own_gradient.hpp"
#include "sync/step_clock.hpp"

namespace eqt::sync {
namespace {

using pipeline::FusionBucket;

/// Sets to 0 what a rank keeps for values that it owns.
class ClearingVisitor final : public StateVisitor {
 public:
  void values(std::string_view, std::span<float>, Across) override {}
  void doubles(std::string_view, std::span<double>, Across) override {}
  void numbers(std::string_view, std::span<std::uint64_t>, Across) override {}
  void placed(std::string_view, std::span<float> values,
              const std::function<std::vector<SliceRange>()>&) override {
    std::ranges::fill(values, 0.0f);
  }
  bool restores() const noexcept override { return false; }
  void enter(std::string_view) override {}
  void leave() override {}
};

class GradientAveraging final : public FragmentAveraging, private collective::MeanWork {
 public:
  GradientAveraging(comm::Communicator& comm, collective::Collective& collective,
                    collective::GradientMemory* memory, std::vector<FusionBucket> plan,
                    std::size_t fragments, const Layout& layout, std::span<float> gradient,
                    const GradientAveragingOptions& options)
      : MeanWork(collective),
        comm_(comm),
        collective_(collective),
        memory_(memory),
        plan_(std::move(plan)),
        layout_(layout),
        gradient_(gradient),
        options_(options),
        own_(layout, gradient, plan_.size(),
             {.run_seed = options.run_seed,
              .ranks = comm.size(),
              .rank = comm.rank(),
              .lossy = options.lossy,
              .largest = options.largest,
              .memory = memory,
              .adaptation = options.adaptation,
              .divergence = options.divergence,
              .encoder = options.encoder}),
        clock_(layout.size(), plan_.size(), options.adaptation != nullptr),
        parts_(pipeline::fragments_of(plan_, fragments)),
        spans_(options.timeline) {
    for (const std::vector<FusionBucket>& part : parts_) {
      values_.push_back(pipeline::ranges_of(part));
      engines_.emplace_back(comm, part);
    }
    map_slices_to_buckets();
    if (options_.profiles && comm.rank() == 0) profile_.emplace(layout);
    if (options_.overlap) {
      background_.emplace([this] { run_engine(); }, [this] { give_up(); });
    }
  }

  void select(std::size_t fragment) override { fragment_ = fragment; }
  std::size_t fragments() const override { return parts_.size(); }
  std::span<const pipeline::Range> values_of(std::size_t fragment) const override {
    return values_.at(fragment);
  }

  void read_gradient() override { read_on_host_ = true; }

  void begin(StepId step, std::uint64_t epoch) override {
    context_ = {.run_seed = options_.run_seed, .step = step, .density = {}, .residual = {}};
    if (options_.density) context_.density = options_.density(epoch);
    {
      const std::lock_guard lock(mutex_);
      std::copy(slices_of_bucket_.begin(), slices_of_bucket_.end(), pending_.begin());
    }
    own_.begin(step, collective_.takes_residual(), std::exchange(read_on_host_, false));
    if (options_.encoder != nullptr) options_.leave_on_device(own_.on_device());
    clock_.begin();
    traffic_ = {};
    bytes_before_ = comm_.byte_count();
    if (background_) background_->start();
  }

  void slice_ready(std::size_t slice) override {
    clock_.slice_ready(slice);
    // The others wait for this rank's messages, and must not have to wait for the rest of its step.
    if (background_) background_->rethrow();
    if (own_.on_device()) encode_after(slice);
    bool bucket_full = false;
    {
      const std::lock_guard lock(mutex_);
      for (const std::uint32_t bucket : buckets_of_slice_[slice]) {
        EQT_DCHECK(pending_[bucket] > 0, "slice {} was announced twice", slice);
        if (--pending_[bucket] > 0) continue;
        bucket_full = true;
        clock_.bucket_ready(bucket);
      }
    }
    if (bucket_full) changed_.notify_all();
  }

  SyncResult finish() override {
    clock_.computed();
    if (background_) {
      background_->finish();
    } else {
      run_engine();
    }
    clock_.end(own_.adapting());
    count_bytes(bytes_before_, comm_.byte_count(), traffic_);
    SyncResult result{.traffic = {},
                      .quantization_variance = own_.variance(),
                      .mean_sketch = own_.sketch(values_[fragment_])};
    if (own_.adapting()) adapt(result);
    if (profile_) result.profile = profile_->add(context_.step, clock_);
    result.traffic = traffic_;
    return result;
  }

  void rethrow() override {
    if (background_) background_->rethrow();
  }

  void visit_state(StateVisitor& visitor) override {
    if (options_.encoder != nullptr) options_.encoder->return_residual();
    visit_in(visitor, "collective", collective_);
    if (memory_ != nullptr) visit_in(visitor, "memory", *memory_);
    if (visitor.converts()) clear_rest_of_estimates();
    if (options_.adaptation != nullptr) visit_in(visitor, "adaptation", *options_.adaptation);
  }

 private:
  /// Owners keep what g lacks of the mean of estimates. Where all ranks begin with g, it lacks
  /// nothing (collective/ef21.cpp).
  void clear_rest_of_estimates() {
    if (memory_ == nullptr || memory_->negated_estimate().empty()) return;
    ClearingVisitor clears;
    collective_.visit_state(clears);
  }

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

  /// Starts encoding the buckets of which this slice is the last, before the engine sees that they
  /// are ready.
  void encode_after(std::size_t slice) {
    // Only this thread changes them until the step ends.
    for (const std::uint32_t bucket : buckets_of_slice_[slice])
      if (pending_[bucket] == 1) own_.encode(plan_[bucket]);
  }

  void run_engine() {
    clock_.communicate();
    prepare(context_, gradient_);
    spans_.begin();
    engines_[fragment_].run(*this);
    spans_.end();
  }

  void give_up() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    comm_.cancel();
  }

  bool is_ready(const FusionBucket& bucket) override {
    if (!background_) return true;
    {
      const std::lock_guard lock(mutex_);
      if (pending_[bucket.index] > 0) return false;
    }
    return own_.is_encoded(bucket);
  }

  void wait_ready(const FusionBucket& bucket) override {
    const double begin = spans_.now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || pending_[bucket.index] == 0; });
    // A device calls nobody.
    constexpr std::chrono::microseconds kPoll{20};
    while (!stop_ && !own_.is_encoded(bucket)) changed_.wait_for(lock, kPoll);
    spans_.idled(begin);
    if (stop_) fail(Kind::bug, "the synchronization was given up because of another error");
  }

  /// Called on the communication thread, like everything below.
  void before(const FusionBucket& bucket, collective::MeanContext& context) override {
    const Stopwatch prepare;
    if (options_.fault) {
      context.step = options_.fault->inject_in_bucket(comm_.rank(), context.step, bucket.index);
    }
    own_.before(bucket, context);
    traffic_.encode_seconds += prepare.seconds();
  }

  void after(const FusionBucket& bucket, const collective::MeanResult& result) override {
    const Stopwatch keep;
    own_.require_finite(bucket, "the mean gradient");
    own_.after(bucket, result.contribution);
    own_.complete(bucket);
    traffic_ += result.traffic;
    traffic_.encode_seconds += keep.seconds();
  }

  void waited(double seconds) override {
    spans_.waited(seconds);
    traffic_.transfer_seconds += background_ ? background_->exposed(seconds) : seconds;
  }

  /// After the last bucket, on the trainer's thread: the communication thread waits for begin().
  void adapt(SyncResult& result) {
    Traffic traffic;
    const Stopwatch transfer;
    const comm::ByteCount bytes_before = comm_.byte_count();
    options_.adaptation->observe_mean(gradient_, clock_.take_seconds());
    result.note = options_.adaptation->adapt(context_.step);
    report_adaptation(*options_.adaptation, context_.step, layout_, result);
    traffic.transfer_seconds = transfer.seconds();
    count_bytes(bytes_before, comm_.byte_count(), traffic);
    traffic_ += traffic;
  }

  comm::Communicator& comm_;
  collective::Collective& collective_;
  collective::GradientMemory* const memory_;
  const std::vector<FusionBucket> plan_;
  const Layout& layout_;
  const std::span<float> gradient_;
  const GradientAveragingOptions options_;
  std::vector<std::vector<std::uint32_t>> buckets_of_slice_;
  std::vector<std::size_t> slices_of_bucket_;

  collective::MeanContext context_;
  OwnGradient own_;
  StepClock clock_;
  std::optional<StepProfile> profile_;
  const std::vector<std::vector<FusionBucket>> parts_;  // by fragment
  std::vector<std::vector<pipeline::Range>> values_;    // likewise
  std::deque<pipeline::Engine> engines_;                // likewise
  std::size_t fragment_ = 0;
  bool read_on_host_ = false;  // in the next step
  MessageSpans spans_;
  Traffic traffic_;
  comm::ByteCount bytes_before_;

  std::mutex mutex_;  // guards the members below; others are used by one thread at a time
  std::condition_variable changed_;
  std::vector<std::size_t> pending_;  // by bucket: slices that are not ready
  bool stop_ = false;
  std::optional<BackgroundThread> background_;
};

}  // namespace

std::unique_ptr<FragmentAveraging> make_fragment_averaging(
    comm::Communicator& comm, collective::Collective& collective,
    collective::GradientMemory* memory, std::vector<FusionBucket> plan, std::size_t fragments,
    const Layout& layout, std::span<float> gradient, const GradientAveragingOptions& options) {
  return std::make_unique<GradientAveraging>(comm, collective, memory, std::move(plan), fragments,
                                             layout, gradient, options);
}

std::unique_ptr<Synchronizer> make_gradient_averaging(
    comm::Communicator& comm, collective::Collective& collective,
    collective::GradientMemory* memory, std::vector<FusionBucket> plan, const Layout& layout,
    std::span<float> gradient, const GradientAveragingOptions& options) {
  return make_fragment_averaging(comm, collective, memory, std::move(plan), 1, layout, gradient,
                                 options);
}

GradientAveragingOptions averaging_options(const AlgorithmParts& parts,
                                           const AlgorithmSettings& settings) {
  const codec::Properties properties = parts.compressor.properties();
  return {.run_seed = settings.run_seed,
          .overlap = settings.overlap,
          .lossy = !properties.lossless,
          .largest = properties.largest,
          .density =
              properties.forgets_sent ? settings.density : std::function<double(std::uint64_t)>(),
          .adaptation = parts.adaptation,
          .fault = parts.fault,
          .divergence = parts.divergence,
          .timeline = parts.timeline};
}

const AlgorithmRow kAllreduce = {
    .name = "allreduce",
    .about = "the mean of all ranks' gradients in every step",
    .averages_gradients = true,
    .can_be_simulated = true,
    .make = [](AlgorithmParts parts, const AlgorithmSettings& settings) {
      if (parts.collective->row().shares_memory) parts.comm.share_memory(parts.gradient_memory);
      GradientAveragingOptions options = averaging_options(parts, settings);
      options.profiles = true;
      options.encoder = parts.encoder;
      options.leave_on_device = parts.leave_on_device;
      return BuiltAlgorithm{.synchronizer = make_gradient_averaging(
                                parts.comm, *parts.collective, parts.memory,
                                std::move(parts.buckets), parts.layout, parts.gradient, options),
                            .collective = std::string(parts.collective->name())};
    }};

}  // namespace eqt::sync
