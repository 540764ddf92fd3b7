// SPDX-License-Identifier: Apache-2.0
// The parts of gradients that a rank keeps because they were not sent.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collective/collective.hpp"
#include "core/saved_state.hpp"

namespace eqt::collective {

class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  /// Called before the first bucket of a step.
  virtual void begin() {}
  /// Before compensate(), or before a collective adds residual() to the bucket's gradient: forgets
  /// a part of the bucket's residual, and replaces the gradient by its velocity where ranks have
  /// momentum of their own.
  virtual void prepare(const FusionBucket&, std::span<float> /*gradient*/) {}
  /// Before encoding: turns the bucket's local gradient into the values to send.
  virtual void compensate(const FusionBucket& bucket, std::span<float> gradient) = 0;
  /// After sending: keeps what the contribution did not include.
  virtual void remember(const FusionBucket& bucket, const Contribution& contribution) = 0;
  /// After remember() of all memories of this process, on one of them: turns the mean of what ranks
  /// sent into what the step applies.
  virtual void complete(const FusionBucket&, std::span<float> /*mean*/) {}
  /// Returns what all ranks know of this rank's gradient, with a minus sign: the values to send are
  /// the gradient plus this. It is a flat buffer; empty: nothing.
  virtual std::span<const float> negated_estimate() const { return {}; }
  /// The flat residual, if compensate() adds it and remember() replaces it by the error. A
  /// collective may then do both while it encodes (Collective::takes_residual). Empty otherwise.
  virtual std::span<float> residual() { return {}; }
  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// residual *= beta, rounded to float32; a result below the normal range becomes 0, since a
/// subnormal one would slow down every step that follows, and might never reach 0.
/// @param beta in (0, 1]; 1: nothing changes
void decay_residual(float beta, std::span<float> residual);

struct FeedbackOptions {
  float decay = 1;     // beta, in (0, 1]
  float momentum = 0;  // m, in [0, 1)
  bool nesterov = false;
};
/// Error feedback: p = g + beta e, send C(p), e = p - C(p) (beta = 1: Seide et al. 2014;
/// Karimireddy et al. 2019; beta < 1: SparseLoCo, Sarfi et al. 2025, arXiv 2508.15706).
/// The learning rate is applied to what was sent, so a change of the rate also scales the residual.
///
/// With momentum m > 0 the velocity takes the place of g in compressed segments: u = m u + g
/// (Nesterov: u = m u + g, then m u + g takes it), and the optimizer has none there (momentum
/// correction: Lin et al. 2018, section 3.2; Zheng et al., NeurIPS 2019, arXiv 1905.10936). What a
/// residual is late by then moves the parameters once, not 1 / (1 - m) times.
/// @param count values of the flat gradient
std::unique_ptr<GradientMemory> make_error_feedback(std::size_t count,
                                                    const FeedbackOptions& options = {});

/// EF21 (Richtarik, Sokolov, Fatkhullin 2021) and EF21-SGDM (Fatkhullin, Tyurin, Richtarik 2023):
/// ranks send what their gradients differ from what is known of them, and apply the mean of what is
/// known. With three flat buffers; see ef21.cpp.
/// @param count values of the flat gradient
/// @param momentum weight of a new gradient in v, eta of EF21-SGDM, in (0, 1]; 1: EF21
std::unique_ptr<GradientMemory> make_ef21(std::size_t count, float momentum);

struct DgcOptions {
  float momentum = 0.9f;
  bool nesterov = false;
  double clip_norm = 0;  // threshold for the gradient of all ranks; 0 = no clipping
  int ranks = 1;
  bool masking = true;  // momentum factor masking
};
/// DGC (Lin et al. 2018): local clipping, momentum correction and momentum factor masking on
/// compressed segments; raw ones pass unchanged (their momentum stays in the optimizer). Masking
/// takes from each value that is sent what its momentum would still have added, m / (1 - m) times
/// the newest gradient and less of the older ones: without it all of that is sent later.
std::unique_ptr<GradientMemory> make_dgc_memory(std::size_t count, const DgcOptions& options);

/// Signum's momentum (Bernstein et al. 2019, algorithm 1): m <- beta m + (1 - beta) g replaces g,
/// also in segments that are sent raw, since the sign of their mean is the update. There is no
/// memory of what the vote drops.
/// @param beta in [0, 1)
std::unique_ptr<GradientMemory> make_signum_memory(std::size_t count, float beta);

/// Density of DGC's warm-up: falls exponentially from density^(1/(warmup+1)) in epoch 0 to
/// `density` in epoch `warmup` and later. Four epochs and 0.001 give the paper's 25, 6.25, 1.6,
/// 0.4, 0.1 %.
double dgc_density(double density, double warmup_epochs, double epoch);

}  // namespace eqt::collective
