// SPDX-License-Identifier: Apache-2.0
// A second implementation of every gossip algorithm, for all ranks in one process: dense matrices,
// double precision, the papers' equations line by line. Compressors are the real ones with the keys
// of the ranks, so that lossy messages are the same.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "core/layout.hpp"
#include "topology/topology.hpp"

namespace eqt::test {

enum class Mixing { plain, choco, squeeze };
enum class Rule { local_momentum, d2, gradient_tracking, quasi_global };

/// An algorithm by its parts.
struct GossipScheme {
  std::string name;
  Mixing mixing = Mixing::plain;
  bool push_sum = false;
  Rule rule = Rule::local_momentum;
  bool combine_first = false;
  double momentum = 0;  // local: m's; quasi-global: beta and mu
  bool nesterov = false;
  double weight_decay = 0;
  bool groups = false;  // tensors have rates, decays and momentums of their own
};

/// Returns the rules of all values.
inline UpdateRules rules_of(const GossipScheme& scheme, const Layout& layout) {
  if (!scheme.groups) return {{.end = total_count(layout), .weight_decay = scheme.weight_decay}};
  UpdateRules rules;
  for (const TensorSlice& slice : layout) {
    const std::size_t kind = rules.size() % 3;
    UpdateRule rule{.begin = slice.offset, .end = slice.offset + slice.count};
    rule.rate_factor = kind == 0 ? 0.5f : kind == 1 ? 4 : 1;
    rule.weight_decay = kind == 0 ? 0.01 : kind == 1 ? 0 : 0.02;
    if (kind == 1 && scheme.momentum > 0) rule.momentum = 0.5f;
    rules.push_back(rule);
  }
  return rules;
}

/// Compression and consensus step.
struct GossipSettings {
  std::uint64_t seed = 1;
  double gamma = 1;
  double damping = 1;
  std::uint64_t local_steps = 1;  // the last of which mixes
  // Events: threshold in typical movements, 0 = off; most rounds without a tensor.
  double kappa = 0;
  std::uint64_t silence = 100;
  // Steps until a mixed model is applied; the last step of all applies all.
  std::uint64_t delay = 0;
  StepId total_steps = 0;
};

/// By node.
using Vectors = std::vector<std::vector<double>>;

class GossipOracle {
 public:
  /// @param layout tensors below `skip_below` values or of one dimension are not compressed
  GossipOracle(const GossipScheme& scheme, const GossipSettings& settings,
               const topology::Topology& topology, const codec::Compressor& compressor,
               const Layout& layout, std::size_t skip_below, const std::vector<double>& start)
      : scheme_(scheme),
        settings_(settings),
        topology_(topology),
        compressor_(compressor),
        layout_(layout),
        skip_below_(skip_below),
        n_(static_cast<std::size_t>(topology.ranks())),
        w_(n_, 1.0),
        rules_(rule_by_value(scheme, layout)),
        x_(n_, start),
        z_(x_),
        m_(zeros()),
        g_before_(zeros()),
        z_before_(zeros()),
        y_(zeros()),
        model_memory_{zeros(), zeros(), zeros(), per_tensor(0.0), per_tensor(std::uint64_t{0})},
        y_memory_{zeros(), zeros(), zeros(), per_tensor(0.0), per_tensor(std::uint64_t{0})} {}

  /// The models z, by node.
  const Vectors& models() const { return z_; }
  /// Replaces the models.
  void set_models(const Vectors& models) { x_ = z_ = models; }
  /// All nodes know each other's models.
  void start() { model_memory_.copies = model_memory_.last = x_; }
  const std::vector<double>& weights() const { return w_; }
  /// Tensors that all nodes sent in all rounds, if events choose them.
  std::uint64_t tensors_sent() const { return model_memory_.sent; }

  /// @param gradient (node, model) -> gradient of the node's loss there
  template <typename Gradient>
  void step(double rate, Gradient&& gradient) {
    Vectors g(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      g[i] = gradient(i, z_[i]);
      for (std::size_t k = 0; k < g[i].size(); ++k) g[i][k] += rules_[k].weight_decay * z_[i][k];
    }
    const Vectors d = direction(g, rate);
    const bool mixes = (step_ + 1) % settings_.local_steps == 0;
    if (step_ % settings_.local_steps == 0) round_start_ = z_, round_rates_ = 0;
    round_rates_ += rate;
    z_before_ = z_;
    g_before_ = g;
    if (mixes && scheme_.combine_first) mix(x_, model_memory_, 0);
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < d[i].size(); ++k) {
        x_[i][k] -= factor(k) * rate * d[i][k];
        z_[i][k] -= factor(k) * rate * d[i][k];
      }
    if (settings_.delay > 0) {
      late_round(mixes);
    } else if (mixes) {
      finish_round();
    }
    ++step_;
  }

 private:
  static UpdateRules rule_by_value(const GossipScheme& scheme, const Layout& layout) {
    UpdateRules rules;
    for (const UpdateRule& rule : rules_of(scheme, layout)) rules.resize(rule.end, rule);
    return rules;
  }
  double factor(std::size_t k) const { return static_cast<double>(rules_[k].rate_factor); }
  double momentum(std::size_t k) const {
    return rules_[k].momentum ? static_cast<double>(*rules_[k].momentum) : scheme_.momentum;
  }

  /// x += mixed(x') - x', where x' is the model that was sent some steps before.
  void late_round(bool mixes) {
    const bool last = step_ + 1 == settings_.total_steps;
    const auto apply = [this] {
      for (std::size_t i = 0; i < n_; ++i)
        for (std::size_t k = 0; k < x_[i].size(); ++k) x_[i][k] += correction_[i][k];
      z_ = x_;
      correction_.clear();
    };
    if (!correction_.empty() && (last || step_ == sent_ + settings_.delay)) apply();
    if (!mixes) return;
    sent_ = step_;
    correction_ = x_;
    mix(correction_, model_memory_, 0);
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < x_[i].size(); ++k) correction_[i][k] -= x_[i][k];
    if (last) apply();
  }

  void finish_round() {
    if (!scheme_.combine_first) mix(x_, model_memory_, 0);
    if (scheme_.rule == Rule::gradient_tracking) mix(y_, y_memory_, 1);
    if (scheme_.push_sum) mix_weights();
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < z_[i].size(); ++k) z_[i][k] = x_[i][k] / w_[i];
    learn();
  }

  /// The memory of mixing one buffer: CHOCO's public copies, DeepSqueeze's errors.
  struct Memory {
    Vectors copies, errors;
    // Events: the models after the last round; by node and tensor, D and the rounds of silence.
    Vectors last, typical;
    std::vector<std::vector<std::uint64_t>> quiet;
    std::uint64_t sent = 0;
  };

  template <typename Value>
  std::vector<std::vector<Value>> per_tensor(Value value) const {
    return {n_, std::vector<Value>(layout_.size(), value)};
  }

  /// SPARQ-SGD's event for a tensor, with kappa^2 D as its threshold.
  bool event(std::size_t node, std::size_t tensor, const Vectors& x, Memory& memory) const {
    const TensorSlice& slice = layout_[tensor];
    double moved = 0, apart = 0;
    for (std::size_t k = slice.offset; k < slice.offset + slice.count; ++k) {
      moved += std::pow(x[node][k] - memory.last[node][k], 2);
      apart += std::pow(x[node][k] - memory.copies[node][k], 2);
    }
    double& typical = memory.typical[node][tensor];
    std::uint64_t& quiet = memory.quiet[node][tensor];
    typical = typical == 0 ? moved : 0.9 * typical + 0.1 * moved;
    ++quiet;
    if (apart <= settings_.kappa * settings_.kappa * typical && quiet < settings_.silence)
      return false;
    quiet = 0;
    ++memory.sent;
    return true;
  }

  /// q_l = 0 for tensors without an event.
  void leave_out(std::size_t node, const Vectors& x, Memory& memory, std::vector<double>& q) const {
    if (settings_.kappa == 0 || scheme_.mixing != Mixing::choco) return;
    for (std::size_t t = 0; t < layout_.size(); ++t) {
      if (event(node, t, x, memory)) continue;
      const auto begin = q.begin() + static_cast<std::ptrdiff_t>(layout_[t].offset);
      std::fill_n(begin, layout_[t].count, 0.0);
    }
  }

  StepId round() const { return step_ / settings_.local_steps; }
  Vectors zeros() const { return Vectors(n_, std::vector<double>(total_count(layout_))); }
  double w(std::size_t to, std::size_t from) const {
    return topology_.at(round()).weight(static_cast<Rank>(to), static_cast<Rank>(from));
  }

  /// The direction d of x -= rate * d.
  Vectors direction(const Vectors& g, double rate) {
    Vectors d = g;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t k = 0; k < d[i].size(); ++k) {
        const double beta = momentum(k);
        double& m = m_[i][k];
        switch (scheme_.rule) {
          case Rule::local_momentum:
            m = beta * m + g[i][k];
            d[i][k] = scheme_.nesterov ? g[i][k] + beta * m : m;
            break;
          case Rule::quasi_global: {
            const double b = beta * m + g[i][k];
            d[i][k] = scheme_.nesterov ? g[i][k] + beta * b : b;
            break;
          }
          case Rule::d2:  // x_half = x + (x - x_prev) - rate (g - g_prev), movement per rate kept
            if (step_ > 0) {
              d[i][k] = (z_before_[i][k] - z_[i][k]) / (factor(k) * rate_before_) + g[i][k] -
                        g_before_[i][k];
            }
            break;
          case Rule::gradient_tracking:
            y_[i][k] += g[i][k] - g_before_[i][k];
            d[i][k] = y_[i][k];
            break;
        }
      }
    }
    rate_before_ = rate;
    return d;
  }

  void learn() {
    if (scheme_.rule != Rule::quasi_global) return;
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < z_[i].size(); ++k) {
        const double mu = momentum(k), moved = round_start_[i][k] - z_[i][k];
        m_[i][k] = mu * m_[i][k] + (1 - mu) * moved / (factor(k) * round_rates_);
      }
  }

  /// x += gamma (W q - q), for any q.
  void approach(Vectors& x, const Vectors& q) const {
    for (std::size_t i = 0; i < n_; ++i) {
      std::vector<double> mixed(x[i].size());
      for (std::size_t j = 0; j < n_; ++j) {
        const double weight = w(i, j);
        if (weight == 0) continue;
        for (std::size_t k = 0; k < mixed.size(); ++k) mixed[k] += weight * q[j][k];
      }
      for (std::size_t k = 0; k < mixed.size(); ++k) {
        x[i][k] += settings_.gamma * (mixed[k] - q[i][k]);
      }
    }
  }

  void mix(Vectors& x, Memory& memory, std::uint64_t part) const {
    Vectors q(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      std::vector<double> v = x[i];
      for (std::size_t k = 0; k < v.size(); ++k) {
        if (scheme_.mixing == Mixing::choco) v[k] -= memory.copies[i][k];
        if (scheme_.mixing == Mixing::squeeze) v[k] += memory.errors[i][k];
      }
      q[i] = message(i, part, v);
      leave_out(i, x, memory, q[i]);
      if (scheme_.mixing == Mixing::plain) continue;
      for (std::size_t k = 0; k < v.size(); ++k) {
        q[i][k] *= settings_.damping;
        memory.errors[i][k] = v[k] - q[i][k];
        memory.copies[i][k] += q[i][k];
      }
    }
    approach(x, scheme_.mixing == Mixing::choco ? memory.copies : q);
    memory.last = x;
  }

  void mix_weights() {
    std::vector<double> next = w_;
    for (std::size_t i = 0; i < n_; ++i) {
      double mixed = 0;
      for (std::size_t j = 0; j < n_; ++j) mixed += w(i, j) * w_[j];
      next[i] += settings_.gamma * (mixed - w_[i]);
    }
    w_ = next;
  }

  /// The decoded message of v in a part of the round, tensor by tensor.
  std::vector<double> message(std::size_t node, std::uint64_t part,
                              const std::vector<double>& v) const {
    std::vector<float> values(v.begin(), v.end());
    Workspace workspace;
    for (std::size_t t = 0; t < layout_.size(); ++t) {
      const TensorSlice& tensor = layout_[t];
      if (tensor.shape.size() < 2 || tensor.count < skip_below_) continue;
      const auto slice = std::span(values).subspan(tensor.offset, tensor.count);
      // PowerSGD's factors start differently in every step.
      const std::uint64_t part_seed = part == 0 ? settings_.seed : settings_.seed ^ mix64(part);
      const std::uint64_t seed =
          compressor_.id() == codec::CodecId::powersgd ? mix64(part_seed + round()) : part_seed;
      codec::EncodeContext context{.key = {.run_seed = seed,
                                           .step = round(),
                                           .rank = static_cast<std::uint32_t>(node),
                                           .slice = static_cast<std::uint32_t>(t)},
                                   .first_index = 0,
                                   .shared_scale = {},
                                   .density = {},
                                   .rows = static_cast<std::size_t>(tensor.shape.front())};
      if (compressor_.properties().shared_scale) {
        context.shared_scale = context.own_scale = compressor_.local_scale(slice);
      }
      std::vector<std::byte> payload(compressor_.max_payload_bytes(slice.size()));
      payload.resize(compressor_.encode(slice, context, workspace, payload));
      std::fill(slice.begin(), slice.end(), 0.0f);
      compressor_.decode_add(payload, 1, workspace, slice);
    }
    return {values.begin(), values.end()};
  }

  const GossipScheme scheme_;
  const GossipSettings settings_;
  const topology::Topology& topology_;
  const codec::Compressor& compressor_;
  const Layout layout_;
  const std::size_t skip_below_;
  const std::size_t n_;
  StepId step_ = 0;
  double rate_before_ = 0, round_rates_ = 0;
  std::vector<double> w_;
  const UpdateRules rules_;  // of each value
  Vectors x_, z_;            // numerators, models
  Vectors m_;                // momentum, or mh
  Vectors g_before_, z_before_, y_, round_start_;
  Memory model_memory_, y_memory_;
  Vectors correction_;  // with a delay: not applied yet
  StepId sent_ = 0;
};

}  // namespace eqt::test
