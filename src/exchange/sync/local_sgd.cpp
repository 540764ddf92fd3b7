// SPDX-License-Identifier: Apache-2.0
// Local SGD, post-local SGD, and local SGD whose averages come later.
//
// Rounds   those of a gradient's mean, in every H-th step
// Sent     as much as for a gradient's mean
// State    1 model, the last average, and the memory of the mean; with a delay 2 more, the
//          differences under way and their mean, with mixing 1 more; with outer momentum 1 more
// Source   S. Stich, ICLR 2019, arXiv:1805.09767; T. Lin et al., ICLR 2020, arXiv:1808.07217;
//          others in the header
// Deviates ranks average at the end of the run, but not at the end of an epoch

#include "sync/local_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/direction.hpp"
#include "sync/quorum/quorum_rounds.hpp"

namespace eqt::sync {

bool LocalSgdPlan::averages_after(StepId step, std::size_t fragment) const {
  if (step + 1 == total_steps) return true;
  if (fragments > 1) return (step + 1 + local_steps - offset(fragment)) % local_steps == 0;
  if (!ends.empty()) return std::ranges::binary_search(ends, step);
  return step < dense_steps || (step + 1 - dense_steps) % local_steps == 0;
}

StepId LocalSgdPlan::delay_after(StepId sent) const {
  if (delay) return *delay;
  if (ends.empty()) return automatic_delay(local_steps);
  const auto next = std::ranges::upper_bound(ends, sent);
  return automatic_delay((next == ends.end() ? total_steps - 1 : *next) - sent);
}

StepId LocalSgdPlan::averages_before(StepId step, std::size_t fragment) const {
  if (fragments > 1) {
    const StepId begin = offset(fragment);  // its first round is shorter, unless this is 0
    return (step + local_steps - begin) / local_steps - (begin == 0 ? 1 : 0);
  }
  if (!ends.empty())
    return static_cast<StepId>(std::ranges::lower_bound(ends, step) - ends.begin());
  return step <= dense_steps ? step : dense_steps + (step - dense_steps) / local_steps;
}

std::vector<StepId> quadratic_round_ends(const QuadraticRule& rule,
                                         const std::function<float(StepId)>& rate_at,
                                         StepId total_steps, std::int64_t shift,
                                         StepId warmup_steps) {
  constexpr std::size_t kMostRounds = 10'000'000;
  constexpr double kRounding = 1e-6;  // rates are float32: a whole number must not become the one
                                      // below
  std::vector<StepId> ends;
  StepId begin = static_cast<StepId>(std::max<std::int64_t>(0, -shift));
  while (begin < total_steps) {
    const auto position = static_cast<StepId>(static_cast<std::int64_t>(begin) + shift);
    const auto rate = static_cast<double>(rate_at(std::max(position, warmup_steps)));
    const double wanted =
        rate > 0 ? std::pow(rule.alpha / rate, 2) : static_cast<double>(rule.most);
    const double steps =
        std::clamp(std::floor(wanted * (1 + kRounding)), static_cast<double>(rule.least),
                   static_cast<double>(std::max(rule.least, rule.most)));
    begin += static_cast<StepId>(steps);
    ends.push_back(std::min(begin, total_steps) - 1);
    if (ends.size() > kMostRounds)
      fail(Kind::usage,
           "synchronization.local_steps \"qsr\": expected at most {} rounds, found more in {} "
           "steps; raise synchronization.local_steps_base or train fewer steps",
           kMostRounds, total_steps);
  }
  return ends;
}

namespace {

class LocalSgd final : public Synchronizer, private LateExchange {
 public:
  LocalSgd(LocalSgdParts parts, LocalSgdPlan plan, const OuterStep& outer)
      : p_(std::move(parts)),
        plan_(std::move(plan)),
        outer_(outer),
        reference_(p_.parameters.size()),
        own_(plan_.delays() && !outer.mixing ? p_.parameters.size() : 0),
        momentum_(outer.momentum != 0 ? p_.parameters.size() : 0),
        rounds_(plan_.fragments) {
    EQT_CHECK(plan_.local_steps > 0, "models are averaged every 0 steps");
    EQT_CHECK(plan_.fragments == p_.mean->fragments(), "{} fragments in the plan, {} in the mean",
              plan_.fragments, p_.mean->fragments());
    EQT_CHECK(plan_.fragments == 1 || (plan_.dense_steps == 0 && plan_.ends.empty()),
              "fragments with rounds of different lengths");
    EQT_CHECK(!plan_.delays() || p_.difference.data() != p_.gradient.data(),
              "a delay without a buffer for the messages under way");
    EQT_CHECK(p_.direction == nullptr || (!plan_.delays() && plan_.fragments == 1 && !outer.mixing),
              "quasi-global momentum without one average of all values");
  }

  /// A delayed round starts here, not after the update, so that the communication thread is idle
  /// between the steps.
  void begin(StepId step, std::uint64_t epoch) override {
    if (!started_) std::ranges::copy(p_.parameters, reference_.span().begin());
    started_ = true;
    step_ = step;
    epoch_ = epoch;
    // The last step of a shorter run has averaged already.
    if (!plan_.delays() || step == 0 || step == ended_) return;
    for (std::size_t f = 0; f < rounds_.size(); ++f)
      if (plan_.averages_after(step - 1, f) && !rounds_[f].sent) send(step - 1, f);
  }

  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return {};
  }

  SyncResult after_update(float rate) override {
    rates_ += rate;
    for (Round& round : rounds_) round.add_step(rate);
    SyncResult result;
    result.rounds = 0;
    const bool last = step_ + 1 == plan_.total_steps;
    if (last) ended_ = step_ + 1;
    for (std::size_t f = 0; f < rounds_.size(); ++f) {
      if (const auto sent = rounds_[f].sent;
          sent && (plan_.merges_after(step_, *sent) || plan_.is_overdue(step_, *sent)))
        result.add(merge(f, false));
      if (!plan_.averages_after(step_, f)) continue;
      receive();  // the next round is sent
      if (plan_.delays() && !last) continue;
      send(step_, f);
      result.add(merge(f, last));
    }
    return result;
  }

  LateExchange* late() override { return this; }

  void visit_state(StateVisitor& visitor) override {
    receive();
    double rates = static_cast<double>(rates_);
    std::uint64_t started = started_ ? 1 : 0;
    visitor.values("last average", reference_.span(), Across::same);
    visitor.real("rates since", rates, Across::same);
    visitor.number("started", started, Across::same);
    if (plan_.delays()) visitor.number("ended after", ended_, Across::same);
    rates_ = static_cast<float>(rates);
    started_ = started != 0;
    if (outer_.momentum != 0) visitor.values("outer momentum", momentum_.span(), Across::same);
    if (outer_.by_rate) visit_rates(visitor);
    if (plan_.delays()) visit_under_way(visitor);
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    visit_in(visitor, "mean", *p_.mean);
  }

 private:
  bool is_under_way() const override { return under_way_.has_value(); }
  void settle() override { receive(); }
  void rethrow() override { p_.mean->rethrow(); }

  /// Holds the round of one fragment.
  struct Round {
    std::optional<StepId> sent = {};  // the step that ended the round whose mean is not applied yet
    SyncResult received = {};         // of that mean, which is in p_.difference
    double rates = 0, steps = 0;      // of the round that is going on
    double sent_rate = 0;             // mean learning rate of the round whose mean is under way

    void add_step(float rate) {
      rates += static_cast<double>(rate);
      steps += 1;
    }
    void end() {
      sent_rate = steps > 0 ? rates / steps : 0;
      rates = steps = 0;
    }
  };

  /// Calls act(i) for each value of a fragment.
  template <typename Act>
  void for_values(std::size_t fragment, const Act& act) {
    for (const pipeline::Range& range : p_.mean->values_of(fragment))
      for (std::size_t i = range.begin; i < range.end; ++i) act(i);
  }

  /// Starts the mean of how far a fragment of the models has moved. Messages of another one that
  /// are under way are received first, since one thread calls MPI.
  void send(StepId step, std::size_t fragment) {
    receive();
    const auto reference = reference_.span(), own = own_.span();
    for_values(fragment,
               [&](std::size_t i) { p_.difference[i] = reference[i] - p_.parameters[i]; });
    for (const pipeline::Range& range : p_.mean->values_of(fragment))
      require_finite(p_.layout, p_.difference.subspan(range.begin, range.end - range.begin),
                     range.begin, "the model's change", step, p_.comm.rank(), p_.divergence);
    if (!own.empty()) for_values(fragment, [&](std::size_t i) { own[i] = p_.difference[i]; });
    p_.mean->select(fragment);
    p_.mean->begin(plan_.averages_before(step, fragment), epoch_);
    for (std::size_t slice = 0; slice < p_.layout.size(); ++slice) p_.mean->slice_ready(slice);
    rounds_[fragment].sent = step;
    rounds_[fragment].end();
    under_way_ = fragment;
  }

  void receive() {
    if (!under_way_) return;
    rounds_[*under_way_].received = p_.mean->finish();
    under_way_.reset();
  }

  /// Applies the mean of a fragment's differences. @param last all ranks end with the average
  SyncResult merge(std::size_t fragment, bool last) {
    if (under_way_ == fragment) receive();
    if (last || (!plan_.delays() && !outer_.mixing)) {
      adopt_average(fragment);
    } else if (outer_.mixing) {
      mix_with_average(fragment, *outer_.mixing);
    } else {
      keep_progress(fragment);
    }
    Round& round = rounds_[fragment];
    round.sent.reset();
    SyncResult result = std::exchange(round.received, {});
    result.rounds = share_of(fragment);
    return result;
  }

  void adopt_average(std::size_t fragment) {
    const auto reference = reference_.span();
    const float rate = rate_of(fragment);
    for_values(fragment,
               [&](std::size_t i) { p_.parameters[i] = reference[i] - outer_step(i, rate); });
    if (p_.direction != nullptr) p_.direction->observe(reference, p_.parameters, rates_);
    for_values(fragment, [&](std::size_t i) { reference[i] = p_.parameters[i]; });
    rates_ = 0;
  }

  void mix_with_average(std::size_t fragment, float mixing) {
    const auto reference = reference_.span();
    const float rate = rate_of(fragment);
    for_values(fragment, [&](std::size_t i) {
      reference[i] -= outer_step(i, rate);
      p_.parameters[i] = mixing * p_.parameters[i] + (1 - mixing) * reference[i];
    });
  }

  /// This rank keeps its own progress since its difference was sent.
  void keep_progress(std::size_t fragment) {
    const auto reference = reference_.span(), own = own_.span();
    const float rate = rate_of(fragment);
    for_values(fragment, [&](std::size_t i) {
      const float step = outer_step(i, rate);
      reference[i] -= step;
      p_.parameters[i] += own[i] - step;
    });
  }

  /// Returns what the mean of value i moves the average by.
  float outer_step(std::size_t i, float rate) {
    float unused = 0;
    const auto momentum = momentum_.span();
    return outer_.of(p_.difference[i], momentum.empty() ? unused : momentum[i], rate);
  }

  float rate_of(std::size_t fragment) const {
    return static_cast<float>(rounds_[fragment].sent_rate);
  }

  /// Returns the fragment's share of all values.
  double share_of(std::size_t fragment) const {
    std::size_t count = 0;
    for (const pipeline::Range& range : p_.mean->values_of(fragment))
      count += range.end - range.begin;
    return static_cast<double>(count) / static_cast<double>(p_.parameters.size());
  }

  /// Visits rates, which are the same on all ranks.
  void visit_rates(StateVisitor& visitor) {
    for (std::size_t f = 0; f < rounds_.size(); ++f) {
      if (rounds_.size() > 1) visitor.enter(fmt::format("fragment {}", f));
      visitor.real("sum of rates", rounds_[f].rates, Across::same);
      visitor.real("steps of the round", rounds_[f].steps, Across::same);
      visitor.real("rate of the round sent", rounds_[f].sent_rate, Across::same);
      if (rounds_.size() > 1) visitor.leave();
    }
  }

  /// With another number of ranks nothing is under way: the next difference, from the same average,
  /// has this one in it.
  void visit_under_way(StateVisitor& visitor) {
    if (!own_.span().empty()) visitor.values("own difference", own_.span(), Across::fresh);
    visitor.values("mean difference", p_.difference, Across::fresh);
    for (std::size_t f = 0; f < rounds_.size(); ++f) {
      if (rounds_.size() > 1) visitor.enter(fmt::format("fragment {}", f));
      visit_round(visitor, rounds_[f]);
      if (rounds_.size() > 1) visitor.leave();
    }
  }

  static void visit_round(StateVisitor& visitor, Round& round) {
    SyncResult& received = round.received;
    const Traffic& traffic = received.traffic;
    std::array<std::uint64_t, 5> counts = {traffic.sent_bytes, traffic.received_bytes,
                                           traffic.messages, traffic.encoded_bytes,
                                           traffic.encoded_values};
    std::array<std::uint64_t, 4> states = {round.sent ? 1u : 0u, round.sent.value_or(0),
                                           received.quantization_variance ? 1u : 0u,
                                           received.mean_sketch ? 1u : 0u};
    double variance = received.quantization_variance.value_or(0);
    MeanSketch sketch = received.mean_sketch.value_or(MeanSketch{});
    visitor.numbers("under way", states, Across::fresh);
    visitor.numbers("traffic under way", counts, Across::fresh);
    visitor.real("variance under way", variance, Across::fresh);
    visitor.doubles("sketch of own values", sketch.exact, Across::fresh);
    visitor.doubles("sketch of the mean", sketch.applied, Across::fresh);
    if (!visitor.restores()) return;
    round.sent.reset();
    if (states[0] != 0) round.sent = states[1];
    received = {.traffic = {.sent_bytes = counts[0],
                            .received_bytes = counts[1],
                            .messages = counts[2],
                            .encoded_bytes = counts[3],
                            .encoded_values = counts[4]}};
    if (states[2] != 0) received.quantization_variance = variance;
    if (states[3] != 0) received.mean_sketch = sketch;
  }

  const LocalSgdParts p_;
  const LocalSgdPlan plan_;
  const OuterStep outer_;
  FlatBuffer reference_;  // r, the model after the last averages: the same on all ranks
  FlatBuffer own_;        // p, this rank's differences under way; empty with mixing
  FlatBuffer momentum_;   // z
  float rates_ = 0;       // sum of the learning rates since
  StepId step_ = 0;
  StepId ended_ = 0;  // steps of the run as it was planned, when it ended; 0: it has not
  std::uint64_t epoch_ = 0;
  bool started_ = false;
  std::vector<Round> rounds_;               // by fragment
  std::optional<std::size_t> under_way_{};  // the fragment whose messages are
};

}  // namespace

std::unique_ptr<Synchronizer> make_local_sgd(LocalSgdParts parts, LocalSgdPlan plan,
                                             const OuterStep& outer) {
  return std::make_unique<LocalSgd>(std::move(parts), std::move(plan), outer);
}

namespace {

constexpr std::string_view kLocalSgdKeys[] = {"local_steps",
                                              "post_local_epochs",
                                              "local_steps_base",
                                              "local_steps_most",
                                              "local_steps_alpha",
                                              "delay",
                                              "outer.learning_rate",
                                              "outer.momentum",
                                              "outer.nesterov",
                                              "outer.by_rate",
                                              "outer.mixing",
                                              "fragments",
                                              "quorum",
                                              "grace_seconds"};

struct LocalSgdOwned {
  std::unique_ptr<Direction> direction;  // may be null
  FlatBuffer difference;                 // what is under way; empty without a delay
};

/// Steps of the mean are averages: they count as steps for what adapts and for faults.
BuiltAlgorithm make(AlgorithmParts parts, const AlgorithmSettings& settings) {
  if (settings.quorum > 0) return make_quorum(std::move(parts), settings);
  const LocalSgdPlan& rounds = settings.rounds;
  const bool late = rounds.delays();
  const auto owned = std::make_shared<LocalSgdOwned>();
  if (late) owned->difference = FlatBuffer(parts.parameters.size());
  const std::span<float> difference = late ? owned->difference.span() : parts.gradient;
  if (parts.collective->row().shares_memory)
    parts.comm.share_memory(late ? &owned->difference : parts.gradient_memory);
  GradientAveragingOptions options = averaging_options(parts, settings);
  options.overlap = late && settings.overlap;
  if (rounds.fragments > parts.buckets.size())
    fail(Kind::usage,
         "synchronization.fragments: expected at most {}, the fusion buckets of this model, found "
         "{}; set fewer, or a smaller synchronization.bucket_mib",
         parts.buckets.size(), rounds.fragments);
  if (options.fault)
    options.fault->step = rounds.averages_before(
        options.fault->step, options.fault->bucket.value_or(0) % rounds.fragments);
  owned->direction = make_direction(parts.row, settings);
  return {.owned = owned,
          .synchronizer = make_local_sgd(
              {.comm = parts.comm,
               .mean = make_fragment_averaging(parts.comm, *parts.collective, parts.memory,
                                               std::move(parts.buckets), rounds.fragments,
                                               parts.layout, difference, options),
               .direction = owned->direction.get(),
               .parameters = parts.parameters,
               .gradient = parts.gradient,
               .difference = difference,
               .layout = parts.layout,
               .divergence = parts.divergence},
              rounds, settings.outer),
          .directs = owned->direction != nullptr,
          .collective = std::string(parts.collective->name())};
}

}  // namespace

const AlgorithmRow kLocalSgd = {
    .name = "local-sgd",
    .about = "the mean of all ranks' models every synchronization.local_steps",
    .keys = kLocalSgdKeys,
    .averages_models = true,
    .quasi_global = true,
    .models_remembered = 1,
    .make = make};

}  // namespace eqt::sync
