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
#include <cstdint>
#include <map>
#include <vector>

#include "codec/catalogue.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "sync/algorithm.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/neighbour_messages.hpp"

namespace eqt::sync {
namespace {

constexpr double kMovementDecay = 0.9;

double square(double x) { return x * x; }

/// Chooses the slices that a rank sends in a round. With D_l = 0.9 D_l + 0.1 |movement of slice l
/// by the rank's own steps since the last round|^2, at first the first movement that is not 0, a
/// slice is sent if |x_l - xh_l|^2 > threshold^2 D_l, where xh is what neighbours know of x, or if
/// it was not sent in the last `silence` - 1 rounds.
///
/// Event-triggered gossip is SPARQ-SGD's (N. Singh et al., CDC 2020, arXiv:1910.14280). Deviates:
/// each slice decides for itself, and typical movements take the place of the paper's thresholds
/// c_t eta_t^2, so that the threshold needs no tuning when the learning rate falls.
class EventTrigger {
 public:
  /// @param plan  names the slices; kept
  /// @param count values of the model
  EventTrigger(std::span<const FusionBucket> plan, std::size_t count, const EventOptions& options);

  /// All ranks have this model.
  void start(std::span<const float> model);
  /// Begins a round. @param known xh
  void choose(std::span<const float> model, std::span<const float> known);
  /// Returns 1 for each segment of the bucket that is sent in this round, else 0.
  std::span<const std::uint8_t> chosen(const FusionBucket& bucket) const {
    return chosen_.at(bucket.index);
  }
  /// The bucket's part of the model at the end of the round.
  void mixed(const FusionBucket& bucket, std::span<const float> values);

  /// Returns the counts of this rank since the start.
  SliceCounts counts() const noexcept { return {counts_[0], counts_[1]}; }

  /// With another number of ranks all begin anew.
  void visit_state(StateVisitor& visitor);

 private:
  /// A segment's values, and the position of their slice.
  struct Range {
    std::size_t begin = 0, end = 0, slice = 0;
  };

  void add_squares(std::span<const float> model, std::span<const float> known);
  bool is_due(std::size_t slice) const;

  const std::span<const FusionBucket> plan_;
  const double square_;  // of the threshold
  const std::uint64_t silence_;
  std::vector<Range> ranges_;                     // of all segments, in ascending order
  std::vector<std::vector<std::size_t>> slices_;  // by bucket: the slice of each segment
  std::vector<std::vector<std::uint8_t>> chosen_;
  FlatBuffer last_;                   // the model at the end of the last round
  std::vector<double> typical_;       // D, by slice
  std::vector<std::uint64_t> quiet_;  // rounds since the slice was sent
  std::vector<double> moved_, apart_;
  std::vector<std::uint8_t> due_;
  std::vector<std::uint64_t> counts_ = {0, 0};  // slices sent, and left out
};

EventTrigger::EventTrigger(std::span<const FusionBucket> plan, std::size_t count,
                           const EventOptions& options)
    : plan_(plan), square_(square(options.threshold)), silence_(options.silence), last_(count) {
  EQT_CHECK(options.threshold > 0 && options.silence > 0, "events above {}, silence {}",
            options.threshold, options.silence);
  std::map<std::uint32_t, std::size_t> positions;
  for (const FusionBucket& bucket : plan)
    for (const codec::Segment& segment : bucket.segments) positions[segment.slice] = 0;
  std::size_t next = 0;
  for (auto& [slice, position] : positions) position = next++;
  for (const FusionBucket& bucket : plan) {
    slices_.emplace_back();
    for (const codec::Segment& segment : bucket.segments) {
      const std::size_t slice = positions.at(segment.slice);
      slices_.back().push_back(slice);
      ranges_.push_back({segment.begin, segment.begin + segment.count, slice});
    }
    chosen_.emplace_back(bucket.segments.size(), std::uint8_t{1});
  }
  std::ranges::sort(ranges_, {}, &Range::begin);
  for (auto* by_slice : {&typical_, &moved_, &apart_}) by_slice->resize(positions.size());
  quiet_.resize(positions.size());
  due_.resize(positions.size());
}

void EventTrigger::start(std::span<const float> model) {
  std::ranges::copy(model, last_.span().begin());
}

/// Value by value in ascending order, so that the sums do not depend on how slices are cut.
void EventTrigger::add_squares(std::span<const float> model, std::span<const float> known) {
  std::ranges::fill(moved_, 0.0);
  std::ranges::fill(apart_, 0.0);
  const auto last = last_.span();
  for (const Range& range : ranges_) {
    double moved = moved_[range.slice], apart = apart_[range.slice];
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const double x = static_cast<double>(model[i]);
      moved += square(x - static_cast<double>(last[i]));
      apart += square(x - static_cast<double>(known[i]));
    }
    moved_[range.slice] = moved;
    apart_[range.slice] = apart;
  }
}

/// Values that are not finite are sent, so that encoding them stops the run.
bool EventTrigger::is_due(std::size_t slice) const {
  return quiet_[slice] + 1 >= silence_ || !std::isfinite(apart_[slice]) ||
         apart_[slice] > square_ * typical_[slice];
}

void EventTrigger::choose(std::span<const float> model, std::span<const float> known) {
  add_squares(model, known);
  for (std::size_t slice = 0; slice < due_.size(); ++slice) {
    double& typical = typical_[slice];
    typical = typical > 0 ? kMovementDecay * typical + (1 - kMovementDecay) * moved_[slice]
                          : moved_[slice];
    due_[slice] = is_due(slice) ? 1 : 0;
    quiet_[slice] = due_[slice] != 0 ? 0 : quiet_[slice] + 1;
    ++counts_[due_[slice] != 0 ? 0 : 1];
  }
  for (std::size_t bucket = 0; bucket < plan_.size(); ++bucket)
    for (std::size_t i = 0; i < slices_[bucket].size(); ++i)
      chosen_[bucket][i] = due_[slices_[bucket][i]];
}

void EventTrigger::mixed(const FusionBucket& bucket, std::span<const float> values) {
  std::ranges::copy(values, last_.span().begin() + static_cast<std::ptrdiff_t>(bucket.begin));
}

void EventTrigger::visit_state(StateVisitor& visitor) {
  visitor.values("last model", last_.span(), Across::fresh);
  visitor.doubles("typical movements", typical_, Across::fresh);
  visitor.numbers("quiet rounds", quiet_, Across::fresh);
  visitor.numbers("slices", counts_, Across::sum);
}

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
                                           "event_silence",  "delay",         "resync_every"};
constexpr std::string_view kQuantSgpKeys[] = {"consensus_step", "order",         "local_steps",
                                              "final_rounds",   "adaptive_step", "event_threshold",
                                              "event_silence",  "resync_every"};
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
