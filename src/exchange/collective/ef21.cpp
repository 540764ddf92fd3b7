// SPDX-License-Identifier: Apache-2.0
// EF21 and its momentum form.
//
// Source   P. Richtarik, I. Sokolov, I. Fatkhullin, NeurIPS 2021, arXiv:2106.05203, algorithm 2; I.
//          Fatkhullin, A. Tyurin, P. Richtarik, NeurIPS 2023, arXiv:2305.15155, algorithm 1
// Symbols  v_m gradient of rank m, or its momentum; g_m what all know of it; g mean of all g_m
// Steps    v_m = (1 - eta) v_m + eta gradient; c_m = C(v_m - g_m); g_m += c_m; g += mean of c_m;
//          the step applies g
// Start    g_m = C(v_m) after the first step, for v_m the first gradient
// State    g_m and g; v_m if eta < 1
// Differs  Every rank keeps g. Segments that are sent raw send v_m itself, and g is its mean: the
//          same without the rounding of differences and sums. What a collective encodes again, such
//          as an owner's mean, is described in docs/compressors.md.

#include <algorithm>
#include <functional>

#include "collective/memory.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::collective {
namespace {

class Ef21 final : public GradientMemory {
 public:
  Ef21(std::size_t count, float momentum)
      : momentum_(momentum), target_(count), estimate_(count), mean_(count) {}

  void begin() override {
    weight_ = started_ ? momentum_ : 1.0f;
    started_ = true;
  }

  void compensate(const FusionBucket& bucket, std::span<float> gradient) override {
    float* __restrict target = target_.span().data();
    const float* __restrict estimate = estimate_.span().data();
    float* __restrict values = gradient.data();
    // The first gradient replaces whatever is there: after a rollback that may not be finite.
    const bool replaces = weight_ == 1;
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) {
      target[i] = replaces ? -values[i] : (1 - weight_) * target[i] - weight_ * values[i];
      values[i] = estimate[i] - target[i];
    }
  }

  /// -v + (v - g) becomes -v + (v - g) - c.
  void remember(const FusionBucket& bucket, const Contribution& contribution) override {
    const auto estimate = estimate_.span();
    contribution.subtract_from(estimate, bucket, workspace_, target_.span());
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed)
        std::ranges::fill(estimate.subspan(segment.begin, segment.count), 0.0f);
    }
  }

  void complete(const FusionBucket& bucket, std::span<float> mean) override {
    const auto known = mean_.span();
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed) continue;
      for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
        known[i] += mean[i];
        mean[i] = known[i];
      }
    }
  }

  std::span<const float> negated_estimate() const override { return estimate_.span(); }

  /// With another number of ranks, or without the estimates of lost ones, every rank begins with g.
  /// So g is the mean of all estimates, as it has to be from then on: whatever else is in it would
  /// stay in every later step.
  void visit_state(StateVisitor& visitor) override {
    visitor.values("mean estimate", mean_.span(), Across::same);
    visitor.values("negated estimate", estimate_.span(), Across::fresh);
    if (visitor.converts())
      std::ranges::transform(mean_.span(), estimate_.span().begin(), std::negate());
    if (momentum_ == 1) return;
    std::uint64_t started = started_ ? 1 : 0;
    visitor.values("negated momentum", target_.span(), Across::mean);
    visitor.number("started", started, Across::same);
    started_ = started != 0;
  }

 private:
  const float momentum_;  // eta
  // Both negated, since contributions are subtracted. Estimates of raw segments stay 0.
  const FlatBuffer target_;    // -v_m
  const FlatBuffer estimate_;  // -g_m
  const FlatBuffer mean_;      // g; unused where complete() is called on another memory
  bool started_ = false;
  float weight_ = 1;  // of this step's gradient
  Workspace workspace_;
};

}  // namespace

std::unique_ptr<GradientMemory> make_ef21(std::size_t count, float momentum) {
  return std::make_unique<Ef21>(count, momentum);
}

}  // namespace eqt::collective
