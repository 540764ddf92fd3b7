// SPDX-License-Identifier: Apache-2.0
// The gradients of workers, averaged in one process.

#include "sync/simulated_averaging.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "sync/own_gradient.hpp"

namespace eqt::sync {
namespace {

using collective::GradientMemory;
using pipeline::FusionBucket;

class SimulatedAveraging final : public Synchronizer, private WorkerGradients {
 public:
  SimulatedAveraging(collective::WorkerMean& mean, std::vector<GradientMemory*> memories,
                     std::vector<FusionBucket> plan, const Layout& layout,
                     std::span<float> gradient, const GradientAveragingOptions& options)
      : mean_(mean),
        memories_(std::move(memories)),
        plan_(std::move(plan)),
        layout_(layout),
        gradient_(gradient),
        options_(options) {
    own_.reserve(memories_.size());
    for (GradientMemory* const memory : memories_) {
      own_.emplace_back(layout, gradient, plan_.size(),
                        OwnGradientOptions{.run_seed = options.run_seed,
                                           .ranks = static_cast<int>(memories_.size()),
                                           .rank = static_cast<Rank>(own_.size()),
                                           .lossy = options.lossy,
                                           .largest = options.largest,
                                           .memory = memory,
                                           .adaptation = options.adaptation,
                                           .divergence = options.divergence});
    }
  }

  void begin(StepId step, std::uint64_t epoch) override {
    context_ = {.run_seed = options_.run_seed, .step = step, .density = {}, .residual = {}};
    if (options_.density) context_.density = options_.density(epoch);
    for (OwnGradient& own : own_) own.begin(step, mean_.takes_residual());
    traffic_ = {};
    ready_ = 0;
  }

  void slice_ready(std::size_t) override {}

  WorkerGradients* workers() override { return this; }

  SyncResult finish() override {
    EQT_CHECK(ready_ == own_.size(), "{} of {} workers", ready_, own_.size());
    for (const FusionBucket& bucket : plan_) finish(bucket);
    SyncResult result{
        .traffic = traffic_, .quantization_variance = mean_variance(), .mean_sketch = sketch()};
    if (own_.front().adapting()) {
      options_.adaptation->observe_mean(gradient_, {});
      result.note = options_.adaptation->adapt(context_.step);
      report_adaptation(*options_.adaptation, context_.step, layout_, result);
      result.traffic += options_.adaptation->traffic_among(static_cast<int>(own_.size()));
    }
    return result;
  }

  void visit_state(StateVisitor& visitor) override {
    visit_in(visitor, "collective", mean_);
    for (std::size_t w = 0; w < memories_.size(); ++w) {
      if (memories_[w] != nullptr)
        visit_in(visitor, fmt::format("memory of worker {}", w), *memories_[w]);
    }
    if (options_.adaptation != nullptr) visit_in(visitor, "adaptation", *options_.adaptation);
  }

 private:
  void worker_ready() override {
    EQT_CHECK(ready_ < own_.size(), "worker {} of {}", ready_, own_.size());
    const auto worker = static_cast<Rank>(ready_);
    for (const FusionBucket& bucket : plan_) {
      const Stopwatch prepare;
      collective::MeanContext context = context_;
      own_[ready_].before(bucket, context);
      traffic_.encode_seconds += prepare.seconds();
      mean_.take(worker, bucket, context, gradient_, traffic_);
    }
    if (own_[ready_].adapting()) options_.adaptation->end_worker();
    ++ready_;
  }

  void finish(const FusionBucket& bucket) {
    mean_.mean(bucket, context_, gradient_, traffic_);
    const Stopwatch keep;
    own_.front().require_finite(bucket, "the mean gradient");
    for (std::size_t w = 0; w < own_.size(); ++w)
      own_[w].after(bucket, mean_.contribution(static_cast<Rank>(w), bucket));
    own_.front().complete(bucket);
    traffic_.encode_seconds += keep.seconds();
  }

  /// The mean over workers.
  std::optional<double> mean_variance() const {
    double sum = 0, count = 0;
    for (const OwnGradient& own : own_) {
      const auto variance = own.variance();
      if (!variance) continue;
      sum += *variance;
      count += 1;
    }
    if (count == 0) return {};
    return sum / count;
  }

  /// Returns the sketch of all workers' gradients and their mean.
  std::optional<MeanSketch> sketch() const {
    auto all = own_.front().sketch();
    for (std::size_t w = 1; all && w < own_.size(); ++w) own_[w].add_sketch_to(*all);
    return all;
  }

  collective::WorkerMean& mean_;
  const std::vector<GradientMemory*> memories_;  // by worker
  const std::vector<FusionBucket> plan_;
  const Layout& layout_;
  const std::span<float> gradient_;
  const GradientAveragingOptions options_;
  std::vector<OwnGradient> own_;  // by worker
  collective::MeanContext context_;
  Traffic traffic_;
  std::size_t ready_ = 0;  // workers whose gradient is ready in this step
};

}  // namespace

std::unique_ptr<Synchronizer> make_simulated_averaging(collective::WorkerMean& mean,
                                                       std::vector<GradientMemory*> memories,
                                                       std::vector<FusionBucket> plan,
                                                       const Layout& layout,
                                                       std::span<float> gradient,
                                                       const GradientAveragingOptions& options) {
  return std::make_unique<SimulatedAveraging>(mean, std::move(memories), std::move(plan), layout,
                                              gradient, options);
}

}  // namespace eqt::sync
