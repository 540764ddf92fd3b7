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

std::size_t count_of(const UpdateRules& rules) {
  EQT_CHECK(!rules.empty() && rules.front().begin == 0, "rules for all values");
  return rules.back().end;
}

class QuasiGlobalMomentum final : public Direction {
 public:
  QuasiGlobalMomentum(const UpdateRules& rules, const QuasiGlobalOptions& options)
      : options_(options), rules_(rules), movement_(count_of(rules)) {}

  std::string_view name() const noexcept override { return "quasi-global momentum"; }

  void direct(std::span<const float> model, std::span<float> gradient) override {
    const auto mh = movement_.span();
    const bool nesterov = options_.nesterov;
    for (const UpdateRule& rule : rules_) {
      const float beta = momentum_of(rule), decay = static_cast<float>(rule.weight_decay);
      for (std::size_t i = rule.begin; i < rule.end; ++i) {
        const float g = gradient[i] + decay * model[i];
        const float b = beta * mh[i] + g;
        gradient[i] = nesterov ? g + beta * b : b;
      }
    }
  }

  void observe(std::span<const float> before, std::span<const float> after, float rate) override {
    const auto mh = movement_.span();
    for (const UpdateRule& rule : rules_) {
      const float own = rate * rule.rate_factor;
      if (!(own > 0)) continue;  // the movement per rate is unknown
      const float mu = momentum_of(rule), share = (1 - mu) / own;
      for (std::size_t i = rule.begin; i < rule.end; ++i)
        mh[i] = mu * mh[i] + share * (before[i] - after[i]);
    }
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.values("movement", movement_.span(), Across::mean);
  }

 private:
  float momentum_of(const UpdateRule& rule) const {
    return rule.momentum.value_or(options_.momentum);
  }

  const QuasiGlobalOptions options_;
  const UpdateRules rules_;
  FlatBuffer movement_;  // mh
};

/// Gradients with weight decay, and their change from step to step.
class GradientChange {
 public:
  explicit GradientChange(const UpdateRules& rules) : rules_(rules), previous_(count_of(rules)) {}

  const UpdateRules& rules() const { return rules_; }

  /// base += g - g_prev, where g is the gradient with weight decay, and remembers g.
  void add_to(std::span<const float> model, std::span<const float> gradient,
              std::span<float> base) {
    const auto previous = previous_.span();
    for (const UpdateRule& rule : rules_) {
      const float decay = static_cast<float>(rule.weight_decay);
      for (std::size_t i = rule.begin; i < rule.end; ++i) {
        const float g = gradient[i] + decay * model[i];
        base[i] += g - previous[i];
        previous[i] = g;
      }
    }
  }

  /// Makes the next change of the range one from 0.
  void forget(const UpdateRule& range) {
    std::ranges::fill(previous_.span().subspan(range.begin, range.end - range.begin), 0.0f);
  }

  void visit_state(StateVisitor& visitor) {
    visitor.values("previous gradient", previous_.span(), Across::fresh);
  }

 private:
  const UpdateRules rules_;
  FlatBuffer previous_;
};

class D2 final : public Direction {
 public:
  explicit D2(const UpdateRules& rules) : change_(rules), movement_(count_of(rules)) {}

  std::string_view name() const noexcept override { return "D2"; }

  void direct(std::span<const float> model, std::span<float> gradient) override {
    // D is 0 in the first step, which is plain SGD.
    change_.add_to(model, gradient, movement_.span());
    std::copy_n(movement_.span().begin(), gradient.size(), gradient.begin());
  }

  void observe(std::span<const float> before, std::span<const float> after, float rate) override {
    const auto movement = movement_.span();
    for (const UpdateRule& rule : change_.rules()) {
      const float own = rate * rule.rate_factor;
      if (!(own > 0)) {
        // D is not known then, so it starts again as plain SGD, and the mean direction is the mean
        // gradient.
        std::ranges::fill(movement.subspan(rule.begin, rule.end - rule.begin), 0.0f);
        change_.forget(rule);
        continue;
      }
      const float inverse = 1 / own;
      for (std::size_t i = rule.begin; i < rule.end; ++i)
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
  explicit GradientTracking(const UpdateRules& rules) : change_(rules), tracked_(count_of(rules)) {}

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

UpdateRules rates_alone(UpdateRules rules) {
  for (UpdateRule& rule : rules) {
    rule.weight_decay = 0;
    rule.momentum.reset();
  }
  return rules;
}

std::unique_ptr<Direction> make_quasi_global_momentum(const UpdateRules& rules,
                                                      const QuasiGlobalOptions& options) {
  for (const UpdateRule& rule : rules) {
    const float momentum = rule.momentum.value_or(options.momentum);
    if (!(momentum >= 0 && momentum < 1))
      fail(Kind::usage,
           "quasi-global momentum: expected a momentum of at least 0 and below 1, found {}",
           momentum);
  }
  return std::make_unique<QuasiGlobalMomentum>(rules, options);
}

std::unique_ptr<Direction> make_d2(const UpdateRules& rules) { return std::make_unique<D2>(rules); }

std::unique_ptr<Direction> make_gradient_tracking(const UpdateRules& rules) {
  return std::make_unique<GradientTracking>(rules);
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
