// SPDX-License-Identifier: Apache-2.0
// AdamW: the gradient's mean divided by the root of its mean square, with decoupled weight decay,
// in one pass.
//
// Source   D. Kingma, J. Ba, ICLR 2015, arXiv:1412.6980, algorithm 1; I. Loshchilov, F. Hutter,
//          ICLR 2019, arXiv:1711.05101, algorithm 2, as torch.optim.AdamW scales it (the learning
//          rate multiplies the decay)
// Symbols  p parameter, g gradient, m and v its first and second moment, b1 and b2 their decay, wd
//          weight decay, t number of the step from 1
// Step     p <- p (1 - rate wd);  m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g g
//          p <- p - rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
// Speed    limited by memory: 16 bytes read and 12 written per parameter

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "optim/optimizer.hpp"

namespace eqt::optim {
namespace {

/// The factors of one step, the same for all parameters.
struct Factors {
  float keep;                        // of the parameter
  float beta1, gain1, beta2, gain2;  // of the moments and of what is added to them
  float step;                        // rate / (1 - b1^t)
  float root;                        // sqrt(1 - b2^t)
  float epsilon;
};

void update(std::size_t count, const Factors& k, float* __restrict p, const float* __restrict g,
            float* __restrict m, float* __restrict v) {
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = k.beta1 * m[i] + k.gain1 * g[i];
    v[i] = k.beta2 * v[i] + k.gain2 * g[i] * g[i];
    const float denominator = std::sqrt(v[i]) / k.root + k.epsilon;
    p[i] = p[i] * k.keep - k.step * m[i] / denominator;
  }
}

class AdamW final : public Optimizer {
 public:
  AdamW(std::size_t count, const AdamWOptions& options)
      : options_(options),
        rules_(rules_for(count, options.weight_decay, options.rules)),
        mean_(count),
        mean_square_(count) {}

  void step(std::span<float> parameters, std::span<const float> gradient, float rate) override {
    EQT_CHECK(parameters.size() == mean_.size() && gradient.size() == mean_.size(),
              "{} parameters and {} gradient values, {} expected", parameters.size(),
              gradient.size(), mean_.size());
    ++steps_;
    for (const UpdateRule& rule : rules_) {
      const double own_rate = static_cast<double>(rate) * static_cast<double>(rule.rate_factor);
      const Factors k = factors(own_rate, rule.weight_decay);
      update(rule.end - rule.begin, k, parameters.data() + rule.begin, gradient.data() + rule.begin,
             mean_.data() + rule.begin, mean_square_.data() + rule.begin);
    }
  }

  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.number("steps", steps_, Across::same);
    visitor.values("first moment", mean_, models);
    visitor.values("second moment", mean_square_, models);
  }

 private:
  Factors factors(double rate, double weight_decay) const {
    const double beta1 = options_.beta1, beta2 = options_.beta2;
    const auto t = static_cast<double>(steps_);
    return {.keep = static_cast<float>(1 - rate * weight_decay),
            .beta1 = static_cast<float>(beta1),
            .gain1 = static_cast<float>(1 - beta1),
            .beta2 = static_cast<float>(beta2),
            .gain2 = static_cast<float>(1 - beta2),
            .step = static_cast<float>(rate / (1 - std::pow(beta1, t))),
            .root = static_cast<float>(std::sqrt(1 - std::pow(beta2, t))),
            .epsilon = static_cast<float>(options_.epsilon)};
  }

  const AdamWOptions options_;
  const UpdateRules rules_;
  std::uint64_t steps_ = 0;
  std::vector<float> mean_, mean_square_;  // (count)
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::size_t count, const AdamWOptions& options) {
  const auto is_decay = [](double beta) { return beta >= 0 && beta < 1; };
  check(is_decay(options.beta1), "optimizer.beta1", "at least 0 and below 1", options.beta1);
  check(is_decay(options.beta2), "optimizer.beta2", "at least 0 and below 1", options.beta2);
  check(options.epsilon > 0 && std::isfinite(options.epsilon), "optimizer.epsilon",
        "a finite number > 0", options.epsilon);
  check(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "optimizer.weight_decay",
        "a finite number >= 0", options.weight_decay);
  return std::make_unique<AdamW>(count, options);
}

namespace {

constexpr std::string_view kKeys[] = {"beta1", "beta2", "epsilon"};

std::unique_ptr<Optimizer> make(const Layout& layout, const OptimizerOptions& options) {
  return make_adamw(total_count(layout), {.beta1 = options.beta1,
                                          .beta2 = options.beta2,
                                          .epsilon = options.epsilon,
                                          .weight_decay = options.weight_decay,
                                          .rules = options.rules});
}

}  // namespace

const OptimizerRow kAdamW = {.name = "adamw",
                             .about = "AdamW: adaptive moments with decoupled weight decay",
                             .keys = kKeys,
                             .moments = 2,
                             .is_scale_free = true,
                             .make = make};

}  // namespace eqt::optim
