// SPDX-License-Identifier: Apache-2.0
#include "collective/memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::collective {
namespace {

class ErrorFeedback final : public GradientMemory {
 public:
  ErrorFeedback(std::size_t count, const FeedbackOptions& options)
      : options_(options),
        memory_(count),
        residual_(memory_.span()),
        velocity_(options.momentum > 0 ? count : 0) {}

  void prepare(const FusionBucket& bucket, std::span<float> gradient) override {
    decay_residual(options_.decay, residual_.subspan(bucket.begin, bucket.count()));
    if (options_.momentum == 0) return;
    for (const codec::Segment& segment : bucket.segments)
      if (segment.compressed) accelerate(segment, gradient);
  }

  void compensate(const FusionBucket& bucket, std::span<float> gradient) override {
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) {
      residual_[i] += gradient[i];
      gradient[i] = residual_[i];
    }
  }

  void remember(const FusionBucket& bucket, const Contribution& contribution) override {
    contribution.subtract_from(residual_, bucket, workspace_);
  }

  std::span<float> residual() override { return residual_; }
  void visit_state(StateVisitor& visitor) override {
    visitor.values("residual", residual_, Across::sum);
    if (options_.momentum > 0) visitor.values("velocity", velocity_.span(), Across::mean);
  }

 private:
  void accelerate(const codec::Segment& segment, std::span<float> gradient) {
    const float m = options_.momentum;
    float* __restrict u = velocity_.span().data() + segment.begin;
    float* __restrict g = gradient.data() + segment.begin;
    for (std::size_t i = 0; i < segment.count; ++i) {
      u[i] = m * u[i] + g[i];
      g[i] = options_.nesterov ? m * u[i] + g[i] : u[i];
    }
  }

  const FeedbackOptions options_;
  FlatBuffer memory_;
  std::span<float> residual_;  // between compensate and remember: the compensated gradient
  FlatBuffer velocity_;        // u; empty without momentum
  Workspace workspace_;
};

// DGC's memory.
//
// Source   Y. Lin et al., ICLR 2018, arXiv:1712.01887, algorithms 1 and 4
// Symbols  u momentum (velocity), v accumulated velocity, m momentum factor
// Steps    clip g locally; u = m u + g, v = v + u (Nesterov: u = m (u + g), v = v + u + g);
//          send the top of v; zero u where v was sent (masking), and subtract from v what was
// Differs  the clipping threshold is applied per tensor, as in the authors' code. The paper sends
//          exact values and zeroes v; here v keeps what rounding left out of a value that was sent,
//          as error feedback does (A. Sarfi et al., SparseLoCo, 2025, arXiv:2508.15706)
class DgcMemory final : public GradientMemory {
 public:
  DgcMemory(std::size_t count, const DgcOptions& options)
      : options_(options),
        state_(2 * count),
        velocity_(std::span(state_).first(count)),
        accumulated_(std::span(state_).last(count)) {}

  void compensate(const FusionBucket& bucket, std::span<float> gradient) override {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed) {
        keep_raw(segment, gradient);
        continue;
      }
      const float shrink = clip_factor(gradient.subspan(segment.begin, segment.count));
      for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
        correct_momentum(i, shrink * gradient[i]);
        gradient[i] = accumulated_[i];
      }
    }
  }

  void remember(const FusionBucket& bucket, const Contribution& contribution) override {
    if (options_.masking) contribution.zero_sent(velocity_);
    contribution.subtract_from(accumulated_, bucket, workspace_);
  }

  /// Velocity is saved, too: its later contributions would otherwise be lost.
  void visit_state(StateVisitor& visitor) override {
    visitor.values("velocity", velocity_, Across::sum);
    visitor.values("accumulated", accumulated_, Across::sum);
  }

 private:
  /// thr * n^(-1/2): the local share of a threshold on the norm of the summed gradient.
  float clip_factor(std::span<const float> gradient) const {
    if (options_.clip_norm <= 0) return 1.0f;
    double square = 0;
    for (const float g : gradient) square += static_cast<double>(g) * g;
    const double limit = options_.clip_norm / std::sqrt(static_cast<double>(options_.ranks));
    const double norm = std::sqrt(square);
    return norm > limit ? static_cast<float>(limit / norm) : 1.0f;
  }

  /// Keeps raw values until they are sent. Float32 leaves nothing of them, and the part that int8
  /// loses is added to the next gradient.
  void keep_raw(const codec::Segment& segment, std::span<float> gradient) {
    for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
      if (segment.int8) gradient[i] += accumulated_[i];
      accumulated_[i] = gradient[i];
    }
  }

  void correct_momentum(std::size_t i, float g) {
    float& u = velocity_[i];
    if (options_.nesterov) {
      u = options_.momentum * (u + g);
      accumulated_[i] += u + g;
    } else {
      u = options_.momentum * u + g;
      accumulated_[i] += u;
    }
  }

  const DgcOptions options_;
  std::vector<float> state_;  // u, then v
  std::span<float> velocity_, accumulated_;
  Workspace workspace_;
};

class SignumMemory final : public GradientMemory {
 public:
  SignumMemory(std::size_t count, float beta) : beta_(beta), momentum_(count) {}

  void compensate(const FusionBucket& bucket, std::span<float> gradient) override {
    float* __restrict m = momentum_.data();
    float* __restrict g = gradient.data();
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) {
      m[i] = beta_ * m[i] + (1 - beta_) * g[i];
      g[i] = m[i];
    }
  }

  void remember(const FusionBucket&, const Contribution&) override {}

  void visit_state(StateVisitor& visitor) override {
    visitor.values("momentum", momentum_, Across::mean);
  }

 private:
  const float beta_;
  std::vector<float> momentum_;
};

}  // namespace

void decay_residual(float beta, std::span<float> residual) {
  if (beta == 1) return;
  for (float& value : residual) {
    const float kept = beta * value;
    value = std::abs(kept) < std::numeric_limits<float>::min() ? 0.0f : kept;
  }
}

std::unique_ptr<GradientMemory> make_error_feedback(std::size_t count,
                                                    const FeedbackOptions& options) {
  EQT_CHECK(options.decay > 0 && options.decay <= 1, "a residual that decays by {}", options.decay);
  EQT_CHECK(options.momentum >= 0 && options.momentum < 1, "momentum {}", options.momentum);
  return std::make_unique<ErrorFeedback>(count, options);
}

std::unique_ptr<GradientMemory> make_dgc_memory(std::size_t count, const DgcOptions& options) {
  return std::make_unique<DgcMemory>(count, options);
}

std::unique_ptr<GradientMemory> make_signum_memory(std::size_t count, float beta) {
  return std::make_unique<SignumMemory>(count, beta);
}

double dgc_density(double density, double warmup_epochs, double epoch) {
  if (epoch >= warmup_epochs) return density;
  return std::pow(density, (std::floor(epoch) + 1) / (warmup_epochs + 1));
}

}  // namespace eqt::collective
