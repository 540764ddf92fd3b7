// SPDX-License-Identifier: Apache-2.0
// Quasi-global momentum, D2 and gradient tracking, with the rows of those that are algorithms.

#include <algorithm>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "sync/algorithm.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/direction.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/mixer.hpp"
#include "topology/spectrum.hpp"

namespace eqt::sync {
namespace {

class QuasiGlobalMomentum final : public Direction {
 public:
  QuasiGlobalMomentum(std::size_t count, const QuasiGlobalOptions& options)
      : options_(options), movement_(count) {}

  std::string_view name() const noexcept override { return "quasi-global momentum"; }

  void direct(std::span<const float> model, std::span<float> gradient) override {
    const auto [beta, mu, nesterov, decay] = options_;
    const auto mh = movement_.span();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float g = gradient[i] + decay * model[i];
      const float b = beta * mh[i] + g;
      gradient[i] = nesterov ? g + beta * b : b;
    }
  }

  void observe(std::span<const float> before, std::span<const float> after, float rate) override {
    if (!(rate > 0)) return;  // the movement per rate is unknown
    const float mu = options_.mu, share = (1 - mu) / rate;
    const auto mh = movement_.span();
    for (std::size_t i = 0; i < mh.size(); ++i) {
      mh[i] = mu * mh[i] + share * (before[i] - after[i]);
    }
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.values("movement", movement_.span(), Across::mean);
  }

 private:
  const QuasiGlobalOptions options_;
  FlatBuffer movement_;  // mh
};

/// Gradients with weight decay, and their change from step to step.
class GradientChange {
 public:
  GradientChange(std::size_t count, float weight_decay) : decay_(weight_decay), previous_(count) {}

  /// base += g - g_prev, where g is the gradient with weight decay, and remembers g.
  void add_to(std::span<const float> model, std::span<const float> gradient,
              std::span<float> base) {
    const auto previous = previous_.span();
    for (std::size_t i = 0; i < base.size(); ++i) {
      const float g = gradient[i] + decay_ * model[i];
      base[i] += g - previous[i];
      previous[i] = g;
    }
  }

  /// The next change is from 0.
  void forget() { std::ranges::fill(previous_.span(), 0.0f); }

  void visit_state(StateVisitor& visitor) {
    visitor.values("previous gradient", previous_.span(), Across::fresh);
  }

 private:
  const float decay_;
  FlatBuffer previous_;
};

class D2 final : public Direction {
 public:
  D2(std::size_t count, float weight_decay) : change_(count, weight_decay), movement_(count) {}

  std::string_view name() const noexcept override { return "D2"; }

  void direct(std::span<const float> model, std::span<float> gradient) override {
    // D is 0 in the first step, which is plain SGD.
    change_.add_to(model, gradient, movement_.span());
    std::copy_n(movement_.span().begin(), gradient.size(), gradient.begin());
  }

  void observe(std::span<const float> before, std::span<const float> after, float rate) override {
    const auto movement = movement_.span();
    if (!(rate > 0)) {
      // D is not known then, so it starts again as plain SGD, and the mean direction is the mean
      // gradient.
      std::ranges::fill(movement, 0.0f);
      change_.forget();
      return;
    }
    const float inverse = 1 / rate;
    for (std::size_t i = 0; i < movement.size(); ++i) {
      movement[i] = (before[i] - after[i]) * inverse;
    }
  }

  /// Another number of ranks starts again, as plain SGD.
  void visit_state(StateVisitor& visitor) override {
    change_.visit_state(visitor);
    visitor.values("movement", movement_.span(), Across::fresh);
  }

 private:
  GradientChange change_;
  FlatBuffer movement_;  // D
};

class GradientTracking final : public Direction {
 public:
  GradientTracking(std::size_t count, float weight_decay)
      : change_(count, weight_decay), tracked_(count) {}

  std::string_view name() const noexcept override { return "gradient tracking"; }

  void direct(std::span<const float> model, std::span<float> gradient) override {
    change_.add_to(model, gradient, tracked_.span());
    std::copy_n(tracked_.span().begin(), gradient.size(), gradient.begin());
  }

  void observe(std::span<const float>, std::span<const float>, float) override {}
  std::span<float> mixed() override { return tracked_.span(); }
  /// Another number of ranks starts again, because the estimates must sum to the last gradients.
  void visit_state(StateVisitor& visitor) override {
    change_.visit_state(visitor);
    visitor.values("tracked", tracked_.span(), Across::fresh);
  }

 private:
  GradientChange change_;
  FlatBuffer tracked_;  // y
};

}  // namespace

std::unique_ptr<Direction> make_quasi_global_momentum(std::size_t count,
                                                      const QuasiGlobalOptions& options) {
  if (!(options.beta >= 0 && options.beta < 1 && options.mu >= 0 && options.mu < 1)) {
    fail(Kind::usage,
         "quasi-global momentum: expected beta and mu of at least 0 and below 1, found {} and {}",
         options.beta, options.mu);
  }
  return std::make_unique<QuasiGlobalMomentum>(count, options);
}

std::unique_ptr<Direction> make_d2(std::size_t count, float weight_decay) {
  return std::make_unique<D2>(count, weight_decay);
}

std::unique_ptr<Direction> make_gradient_tracking(std::size_t count, float weight_decay) {
  return std::make_unique<GradientTracking>(count, weight_decay);
}

namespace {

constexpr std::string_view kDirectionKeys[] = {"consensus_step", "final_rounds"};

/// Tang et al. 2018, assumption 1.
void require_d2_weights(const topology::Topology& topology) {
  constexpr std::string_view kInstead =
      "synchronization.topology.kind \"star\" or \"complete\", an undirected ring of an odd number "
      "of ranks, or the algorithm gradient-tracking";
  if (!topology.is_static() || !topology.at(0).is_symmetric())
    fail(Kind::usage,
         "synchronization.algorithm d2: expected symmetric weights that do not change, found the "
         "{}; take {}",
         topology.name(), kInstead);
  // Rings of an even number of ranks have the eigenvalue -1/3, up to rounding.
  constexpr double kRounding = 1e-9;
  const double smallest = topology::smallest_eigenvalue(topology.at(0));
  if (smallest > -1.0 / 3 + kRounding) return;
  fail(Kind::usage,
       "synchronization.algorithm d2: expected weights whose eigenvalues lie above -1/3, found "
       "{:.4f} in the {} of {} ranks; take {}",
       smallest, topology.name(), topology.ranks(), kInstead);
}

}  // namespace

const AlgorithmRow kD2 = {.name = "d2",
                          .about = "d-psgd corrected by the last step, for skewed data",
                          .keys = kDirectionKeys,
                          .mixes = true,
                          .without_equal_sums = "sgp",
                          .models_remembered = 5,
                          .make = make_gossip,
                          .make_mixer = make_plain_mixer,
                          .make_direction = make_d2,
                          .check_topology = require_d2_weights};

const AlgorithmRow kGradientTracking = {
    .name = "gradient-tracking",
    .about = "d-psgd with an estimate of the mean gradient, which is mixed, too",
    .keys = kDirectionKeys,
    .mixes = true,
    .without_equal_sums = "sgp",
    .models_remembered = 5,
    .make = make_gossip,
    .make_mixer = make_plain_mixer,
    .make_direction = make_gradient_tracking,
    .mixes_direction = true};

}  // namespace eqt::sync
