// SPDX-License-Identifier: Apache-2.0
// One rank's gradient before and after a mean, its error, and the records of an adaptation.

#include "sync/own_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/square_norm.hpp"

namespace eqt::sync {

using collective::Contribution;
using pipeline::FusionBucket;

void VarianceProbe::begin(bool measuring) {
  measuring_ = measuring;
  // A step may be of some buckets only.
  std::ranges::fill(squares_, Squares{});
}

void VarianceProbe::before(const FusionBucket& bucket, std::span<const float> gradient) {
  if (!measuring_) return;
  const auto from = gradient.subspan(bucket.begin, bucket.count());
  std::copy(from.begin(), from.end(), part(bucket).begin());
}

void VarianceProbe::after(const FusionBucket& bucket, const Contribution& contribution) {
  if (!measuring_) return;
  contribution.keep_encoded(exact_, bucket);
  squares_[bucket.index].exact = square_norm(part(bucket));
  contribution.subtract_from(exact_, bucket, workspace_);
  squares_[bucket.index].error = square_norm(part(bucket));
}

std::optional<double> VarianceProbe::result() const {
  if (!measuring_) return {};
  // Summed in the plan's order, not in the order in which buckets finish.
  Squares sum;
  for (const Squares& bucket : squares_) {
    sum.error += bucket.error;
    sum.exact += bucket.exact;
  }
  if (sum.exact <= 0) return {};
  return sum.error / sum.exact;
}

std::span<float> VarianceProbe::part(const FusionBucket& bucket) {
  return std::span(exact_).subspan(bucket.begin, bucket.count());
}

OwnGradient::OwnGradient(const Layout& layout, std::span<float> gradient, std::size_t buckets,
                         const OwnGradientOptions& options)
    : layout_(layout),
      gradient_(gradient),
      options_(options),
      probe_(options.lossy ? gradient.size() : 0, buckets) {}

bool OwnGradient::fused() const {
  return options_.memory != nullptr && takes_residual_ && !options_.memory->residual().empty() &&
         !probe_.measuring() && !adapting_;
}

void OwnGradient::begin(StepId step, bool takes_residual, bool read_on_host) {
  step_ = step;
  takes_residual_ = takes_residual;
  probe_.begin(options_.lossy && step % kVarianceEvery == 0);
  sketch_.exact.fill(0);
  adapting_ = options_.adaptation != nullptr && options_.adaptation->observes(step);
  if (options_.memory != nullptr) options_.memory->begin();
  if (options_.encoder == nullptr) return;
  on_device_ = !read_on_host && !adapting_ && !probe_.measuring();
  if (on_device_)
    options_.encoder->begin(options_.run_seed, step);
  else
    options_.encoder->return_residual();
}

void OwnGradient::before(const FusionBucket& bucket, collective::MeanContext& context) {
  if (on_device_) return take_payloads(bucket, context);
  require_finite(bucket, "the gradient");
  if (options_.memory != nullptr) options_.memory->prepare(bucket, gradient_);
  // One pass over memory, unless the compensated gradient itself is needed.
  if (fused()) {
    context.residual = options_.memory->residual();
  } else if (options_.memory != nullptr) {
    options_.memory->compensate(bucket, gradient_);
  }
  require_in_range(bucket);
  probe_.before(bucket, gradient_);
  if (probe_.measuring()) add_exact_to_sketch(bucket);
  if (adapting_) options_.adaptation->observe(bucket, gradient_);
}

void OwnGradient::require_in_range(const FusionBucket& bucket) const {
  const bool recovers = options_.divergence != nullptr && options_.divergence->recovers();
  if (!recovers || options_.largest == std::numeric_limits<float>::max()) return;
  const auto values = gradient_.subspan(bucket.begin, bucket.count());
  // Some collectives send sums of values.
  const float largest = options_.largest / static_cast<float>(options_.ranks);
  const auto is_larger = [&](float value) { return !(std::abs(value) <= largest); };
  const auto found = std::ranges::find_if(values, is_larger);
  if (found == values.end()) return;
  options_.divergence->found(
      fmt::format("step {}: the gradient holds {} on rank {}, and the compressor sends sums of at "
                  "most {}; try a smaller optimizer.learning_rate, or compressor.name bf16",
                  step_, *found, options_.rank, options_.largest));
  std::ranges::replace_if(values, is_larger, 0.0f);
}

void OwnGradient::take_payloads(const FusionBucket& bucket, collective::MeanContext& context) {
  if (!options_.encoder->finish(bucket.index)) {
    require_finite(bucket, "the gradient");
    options_.encoder->refuse(bucket.index);
  }
  context.payloads = options_.encoder;
}

void OwnGradient::after(const FusionBucket& bucket, const Contribution& contribution) {
  if (on_device_) return;
  if (options_.memory != nullptr && !fused()) options_.memory->remember(bucket, contribution);
  probe_.after(bucket, contribution);
}

void OwnGradient::complete(const FusionBucket& bucket) {
  if (options_.memory != nullptr) options_.memory->complete(bucket, gradient_);
}

void OwnGradient::add_exact_to_sketch(const FusionBucket& bucket) {
  const auto add = [&](std::span<const float> values, MeanSketch::Sums& sums) {
    add_to_sketch(options_.run_seed, step_, values, bucket.begin, bucket.end, sums);
  };
  add(gradient_, sketch_.exact);
  if (options_.memory == nullptr || options_.memory->negated_estimate().empty()) return;
  MeanSketch::Sums known = {};
  add(options_.memory->negated_estimate(), known);
  for (std::size_t b = 0; b < MeanSketch::kSums; ++b) sketch_.exact[b] -= known[b];
}

std::optional<MeanSketch> OwnGradient::sketch(std::span<const pipeline::Range> values) const {
  if (!probe_.measuring()) return {};
  MeanSketch all = sketch_;
  for (const pipeline::Range& range : values)
    add_to_sketch(options_.run_seed, step_, gradient_, range.begin, range.end, all.applied);
  return all;
}

std::optional<MeanSketch> OwnGradient::sketch() const {
  const std::array<pipeline::Range, 1> whole = {{{0, gradient_.size()}}};
  return sketch(whole);
}

void OwnGradient::add_sketch_to(MeanSketch& all) const {
  for (std::size_t b = 0; b < MeanSketch::kSums; ++b) all.exact[b] += sketch_.exact[b];
}

void OwnGradient::require_finite(const FusionBucket& bucket, std::string_view what) const {
  sync::require_finite(layout_, gradient_.subspan(bucket.begin, bucket.count()), bucket.begin, what,
                       step_, options_.rank, options_.divergence);
}

void report_adaptation(adaptation::Adaptation& adaptation, StepId step, const Layout& layout,
                       SyncResult& result) {
  if (auto found = adaptation.take_findings()) {
    metrics::NoiseRecord noise{.step = step + 1, .noise_scale = found->noise_scale};
    noise.noise_share = found->gradient_noise > 0 ? found->added_noise / found->gradient_noise
                                                  : std::numeric_limits<double>::quiet_NaN();
    for (const adaptation::Findings::Slice& slice : found->slices) {
      noise.slices.push_back({.name = slice_name(layout, slice.slice),
                              .gradient_noise = slice.gradient_noise,
                              .grade = slice.grade});
    }
    result.noise = std::move(noise);
  }
  if (auto decision = adaptation.take_decision())
    result.decisions.push_back({.step = step + 1,
                                .kind = adaptation::kGradeDecisions,
                                .values = std::move(decision->values),
                                .why = std::move(decision->why)});
}

}  // namespace eqt::sync
