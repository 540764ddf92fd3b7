// SPDX-License-Identifier: Apache-2.0
// CHOCO-Gossip: sends compressed differences from public copies of the models.
//
// m = frame bytes of d values, k out-neighbours.
// Rounds   1; 2 in a step that exchanges the public copies
// Sent     m * k bytes per rank, with events less; 4d * k more in such a step
// Decode   d * (in-neighbours + 1) values
// State    xh, s: 2d floats; one more for AdaGossip; one more for events, the last mixed model
//
// Source   A. Koloskova et al., ICML 2019, arXiv:1902.00340, algorithm 2, and ICLR 2020,
//          arXiv:1907.09356, algorithm 2; AdaGossip: S. A. Aketi et al., 2024, arXiv:2404.05919,
//          algorithm 1
// Deviates weights are applied by the receiver; AdaGossip's bias correction counts mixing steps;
//          public copies start at the model that all ranks start with, not at 0: with top-k at 1 %
//          it would take a hundred steps to send that model

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "codec/catalogue.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "sync/algorithm.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/event_trigger.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/neighbour_messages.hpp"

namespace eqt::sync {
namespace {

/// AdaGossip's element-wise step: r * min(most, gamma / sqrt(v)), v the running mean of r^2.
class AdaptiveStep {
 public:
  AdaptiveStep(std::size_t count, float most) : most_(most), squares_(count) {}

  void add(std::size_t begin, std::span<const float> correction, StepId step, float gamma,
           std::span<float> values) {
    const auto v = squares_.span().subspan(begin, values.size());
    const auto debias = static_cast<float>(1 / (1 - std::pow(kDecay, step + 1)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float r = correction[i];
      v[i] = kDecayF * v[i] + (1 - kDecayF) * r * r;
      values[i] += r * std::min(most_, gamma / (std::sqrt(v[i] * debias) + kEpsilon));
    }
  }

  std::span<float> squares() const { return squares_.span(); }

 private:
  static constexpr double kDecay = 0.999;
  static constexpr float kDecayF = 0.999f, kEpsilon = 1e-8f;
  const float most_;
  FlatBuffer squares_;
};

class ChocoMixer final : public Mixer {
 public:
  ChocoMixer(const MixerParts& parts, std::size_t count, const MixerOptions& options)
      : options_(options),
        exact_(codec::make_compressor(codec::kNone)),
        messages_(parts, name(), options.events.threshold > 0),
        public_(count),
        sums_(count) {
    if (!parts.topology.is_static()) {
      fail(Kind::usage,
           "CHOCO-SGD keeps a sum over its neighbours' public copies: expected a graph that does "
           "not change, found {}; take a static synchronization.topology.kind or the algorithm "
           "deep-squeeze",
           parts.topology.name());
    }
    if (options.events.threshold > 0) events_.emplace(parts.plan, count, options.events);
    if (options.adaptive_step) adaptive_.emplace(count, options.most_adaptive_step);
    if (options.resync_every > 0) {
      copies_.emplace(MixerParts{parts.comm, *exact_, parts.topology, parts.plan}, name());
    }
  }

  std::string_view name() const noexcept override { return "CHOCO-Gossip"; }

  void visit_state(StateVisitor& visitor) override {
    visitor.values("public copy", public_.span(), Across::fresh);
    visitor.values("sums", sums_.span(), Across::fresh);
    if (adaptive_) visitor.values("squares", adaptive_->squares(), Across::mean);
    if (events_) visit_in(visitor, "events", *events_);
  }

  void start(const MixContext& context, std::span<const float> model) override {
    std::ranges::copy(model, public_.span().begin());
    const float weights = per_damping(context, messages_.in_weight(context, context.damping));
    std::ranges::transform(model, sums_.span().begin(), [=](float x) { return weights * x; });
    if (events_) events_->start(model);
  }

  void prepare(const MixContext&, std::span<const float> model) override {
    if (events_) events_->choose(model, public_.span());
  }

  std::optional<SliceCounts> slice_counts() const override {
    if (!events_) return {};
    return events_->counts();
  }

  Task mix(const FusionBucket& bucket, const MixContext& context, std::span<float> model,
           MixResult& result) override {
    const auto values = model.subspan(bucket.begin, bucket.count());
    const auto copy = public_.span().subspan(bucket.begin, bucket.count());
    const auto sums = sums_.span().subspan(bucket.begin, bucket.count());
    std::vector<float>& scratch = scratch_.at(context.slot);
    difference(values, copy, scratch, result);
    messages_.encode(bucket, context, scratch, result, {}, chosen(bucket));
    co_await messages_.exchange(bucket, context, "CHOCO: gossip of compressed differences");
    messages_.add_own(bucket, context, context.damping, copy, result);
    messages_.add_neighbours(bucket, context, context.damping, sums, result);
    if (resyncs_after(context.step)) {
      copies_->encode(bucket, renewed(context), copy, result);
      co_await copies_->exchange(bucket, context, "CHOCO: exchange of public copies");
      std::fill(sums.begin(), sums.end(), 0.0f);
      copies_->add_neighbours(bucket, renewed(context), 1, sums, result);
    }
    approach(bucket, context, copy, sums, scratch, values, result);
    if (events_) events_->mixed(bucket, values);
  }

 private:
  /// Returns 1 for each segment that is sent, else 0; empty: all of them are.
  std::span<const std::uint8_t> chosen(const FusionBucket& bucket) const {
    if (!events_) return {};
    return events_->chosen(bucket);
  }

  bool resyncs_after(StepId step) const {
    return options_.resync_every > 0 && (step + 1) % options_.resync_every == 0;
  }

  /// The second message of a bucket in a step has another index.
  static MixContext renewed(MixContext context) {
    constexpr std::uint32_t kSecond = 2;
    context.round += kSecond;
    context.observer = nullptr;  // it is not compressed
    return context;
  }

  static void difference(std::span<const float> values, std::span<const float> copy,
                         std::vector<float>& to, MixResult& result) {
    const Stopwatch encode;
    to.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = values[i] - copy[i];
    result.traffic.encode_seconds += encode.seconds();
  }

  static float per_damping(const MixContext& context, double weights) {
    return static_cast<float>(weights / static_cast<double>(context.damping));
  }

  /// x += gamma (s + (W_ii - 1) xh).
  void approach(const FusionBucket& bucket, const MixContext& context, std::span<const float> copy,
                std::span<const float> sums, std::vector<float>& scratch, std::span<float> values,
                MixResult& result) {
    const Stopwatch decode;
    const float given = per_damping(context, messages_.out_weight(context, context.damping));
    if (adaptive_) {
      for (std::size_t i = 0; i < values.size(); ++i) scratch[i] = sums[i] - given * copy[i];
      adaptive_->add(bucket.begin, scratch, context.step, context.consensus_step, values);
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += context.consensus_step * (sums[i] - given * copy[i]);
      }
    }
    result.traffic.decode_seconds += decode.seconds();
  }

  const MixerOptions options_;
  const std::unique_ptr<codec::Compressor> exact_;
  NeighbourMessages messages_;
  std::optional<NeighbourMessages> copies_;  // of public copies, uncompressed
  FlatBuffer public_, sums_;                 // xh; s = sum_j W_ij xh_j
  std::optional<AdaptiveStep> adaptive_;
  std::optional<EventTrigger> events_;
  std::array<std::vector<float>, pipeline::kMaxSlots> scratch_;
};

}  // namespace

std::unique_ptr<Mixer> make_choco_mixer(const MixerParts& parts, std::size_t count,
                                        const MixerOptions& options) {
  return std::make_unique<ChocoMixer>(parts, count, options);
}

namespace {
constexpr std::string_view kChocoKeys[] = {"consensus_step", "order",         "local_steps",
                                           "final_rounds",   "adaptive_step", "event_threshold",
                                           "event_silence",  "delay"};
constexpr std::string_view kQuantSgpKeys[] = {"consensus_step", "order",         "local_steps",
                                              "final_rounds",   "adaptive_step", "event_threshold",
                                              "event_silence"};
}  // namespace

const AlgorithmRow kChocoSgd = {
    .name = "choco-sgd",
    .about = "compressed differences from public copies of neighbours' models",
    .keys = kChocoKeys,
    .mixes = true,
    .public_copies = true,
    .quasi_global = true,
    .without_equal_sums = "quant-sgp",
    .on_changing_graph = "deep-squeeze",
    .models_remembered = 5,
    .make = make_gossip,
    .make_mixer = make_choco_mixer,
    .default_step = choco_step};

const AlgorithmRow kQuantSgp = {.name = "quant-sgp",
                                .about = "choco-sgd with push-sum",
                                .keys = kQuantSgpKeys,
                                .mixes = true,
                                .push_sum = true,
                                .public_copies = true,
                                .quasi_global = true,
                                .on_changing_graph = "sparse-push",
                                .models_remembered = 6,
                                .make = make_gossip,
                                .make_mixer = make_choco_mixer,
                                .default_step = choco_step};

}  // namespace eqt::sync
