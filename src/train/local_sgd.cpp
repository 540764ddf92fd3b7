// SPDX-License-Identifier: Apache-2.0
// Local SGD, post-local SGD, and local SGD whose averages come later.
//
// Rounds   those of a gradient's mean, in every H-th step
// Sent     as much as for a gradient's mean
// State    1 model, the last average, and the memory of the mean; with a delay 2 more, the
//          difference under way and its mean; with outer momentum 1 more
// Source   S. Stich, ICLR 2019, arXiv:1805.09767; T. Lin et al., ICLR 2020, arXiv:1808.07217;
//          others in the header
// Deviates ranks average at the end of the run, but not at the end of an epoch

#include "train/local_sgd.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::train {
namespace {

class LocalSgd final : public Synchronizer {
 public:
  LocalSgd(LocalSgdParts parts, LocalSgdPlan plan, const OuterStep& outer)
      : p_(std::move(parts)),
        plan_(std::move(plan)),
        outer_(outer),
        reference_(p_.parameters.size()),
        own_(plan_.delays() ? p_.parameters.size() : 0),
        momentum_(outer.momentum != 0 ? p_.parameters.size() : 0) {
    EQT_CHECK(plan_.local_steps > 0, "models are averaged every 0 steps");
    EQT_CHECK(!plan_.delays() || p_.difference.data() != p_.gradient.data(),
              "a delay without a buffer for the messages under way");
    EQT_CHECK(p_.direction == nullptr || !plan_.delays(), "a delay with quasi-global momentum");
  }

  /// A delayed round starts here, not after the update, so that the communication thread is idle
  /// between the steps.
  void begin(StepId step, std::uint64_t epoch) override {
    if (!started_) std::ranges::copy(p_.parameters, reference_.span().begin());
    started_ = true;
    step_ = step;
    epoch_ = epoch;
    if (plan_.delays() && step > 0 && plan_.averages_after(step - 1) && !sent_) send(step - 1);
  }

  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return {};
  }

  SyncResult after_update(float rate) override {
    rates_ += rate;
    SyncResult result;
    result.rounds = 0;
    if (sent_ && plan_.merges_after(step_, *sent_)) result.add(merge_late());
    const bool last = step_ + 1 == plan_.total_steps;
    if (!plan_.averages_after(step_) || (plan_.delays() && !last)) return result;
    send(step_);
    result.add(merge_now());
    return result;
  }

  bool is_under_way() const override { return sent_ && !mean_received_; }
  void settle() override { receive(); }

  void visit_state(StateVisitor& visitor) override {
    receive();
    double rates = static_cast<double>(rates_);
    std::uint64_t started = started_ ? 1 : 0;
    visitor.values("last average", reference_.span(), Across::same);
    visitor.real("rates since", rates, Across::same);
    visitor.number("started", started, Across::same);
    rates_ = static_cast<float>(rates);
    started_ = started != 0;
    if (outer_.momentum != 0) visitor.values("outer momentum", momentum_.span(), Across::same);
    if (plan_.delays()) visit_under_way(visitor);
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    visit_in(visitor, "mean", *p_.mean);
  }

 private:
  /// Starts the mean of how far the models have moved.
  void send(StepId step) {
    const auto reference = reference_.span();
    for (std::size_t i = 0; i < p_.difference.size(); ++i)
      p_.difference[i] = reference[i] - p_.parameters[i];
    require_finite(p_.layout, p_.difference, 0, "the model's change", step, p_.comm.rank(),
                   p_.divergence);
    if (plan_.delays()) std::ranges::copy(p_.difference, own_.span().begin());
    p_.mean->begin(plan_.averages_before(step), epoch_);
    for (std::size_t slice = 0; slice < p_.layout.size(); ++slice) p_.mean->slice_ready(slice);
    sent_ = step;
    mean_received_ = false;
  }

  void receive() {
    if (!is_under_way()) return;
    received_ = p_.mean->finish();
    mean_received_ = true;
  }

  /// All ranks continue from the average.
  SyncResult merge_now() {
    receive();
    const auto reference = reference_.span();
    for (std::size_t i = 0; i < reference.size(); ++i)
      p_.parameters[i] = reference[i] - outer_step(i);
    if (p_.direction != nullptr) p_.direction->observe(reference, p_.parameters, rates_);
    std::ranges::copy(p_.parameters, reference.begin());
    rates_ = 0;
    return end_round();
  }

  /// This rank keeps its own progress since its difference was sent.
  SyncResult merge_late() {
    receive();
    const auto reference = reference_.span(), own = own_.span();
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const float step = outer_step(i);
      reference[i] -= step;
      p_.parameters[i] += own[i] - step;
    }
    return end_round();
  }

  SyncResult end_round() {
    sent_.reset();
    mean_received_ = false;
    SyncResult result = std::exchange(received_, {});
    result.rounds = 1;
    return result;
  }

  /// What the mean of value i moves the average by.
  float outer_step(std::size_t i) {
    const float mean = p_.difference[i];
    if (outer_.momentum == 0) return outer_.learning_rate * mean;
    float& z = momentum_.span()[i];
    z = outer_.momentum * z + mean;
    return outer_.learning_rate * (outer_.nesterov ? mean + outer_.momentum * z : z);
  }

  /// With another number of ranks nothing is under way: the next difference, from the same average,
  /// has this one in it.
  void visit_under_way(StateVisitor& visitor) {
    const Traffic& traffic = received_.traffic;
    std::array<std::uint64_t, 5> counts = {traffic.sent_bytes, traffic.received_bytes,
                                           traffic.messages, traffic.encoded_bytes,
                                           traffic.encoded_values};
    std::array<std::uint64_t, 4> states = {sent_ ? 1u : 0u, sent_.value_or(0),
                                           received_.quantization_variance ? 1u : 0u,
                                           received_.mean_sketch ? 1u : 0u};
    double variance = received_.quantization_variance.value_or(0);
    MeanSketch sketch = received_.mean_sketch.value_or(MeanSketch{});
    visitor.values("own difference", own_.span(), Across::fresh);
    visitor.values("mean difference", p_.difference, Across::fresh);
    visitor.numbers("under way", states, Across::fresh);
    visitor.numbers("traffic under way", counts, Across::fresh);
    visitor.real("variance under way", variance, Across::fresh);
    visitor.doubles("sketch of own values", sketch.exact, Across::fresh);
    visitor.doubles("sketch of the mean", sketch.applied, Across::fresh);
    if (!visitor.restores()) return;
    sent_.reset();
    if (states[0] != 0) sent_ = states[1];
    mean_received_ = sent_.has_value();
    received_ = {.traffic = {.sent_bytes = counts[0],
                             .received_bytes = counts[1],
                             .messages = counts[2],
                             .encoded_bytes = counts[3],
                             .encoded_values = counts[4]}};
    if (states[2] != 0) received_.quantization_variance = variance;
    if (states[3] != 0) received_.mean_sketch = sketch;
  }

  const LocalSgdParts p_;
  const LocalSgdPlan plan_;
  const OuterStep outer_;
  FlatBuffer reference_;  // r, the model after the last average: the same on all ranks
  FlatBuffer own_;        // p, this rank's difference under way
  FlatBuffer momentum_;   // z
  float rates_ = 0;       // sum of the learning rates since
  StepId step_ = 0;
  std::uint64_t epoch_ = 0;
  bool started_ = false;
  std::optional<StepId> sent_ = {};  // the step that ended the round whose mean is not applied yet
  bool mean_received_ = false;       // its mean is in p_.difference
  SyncResult received_ = {};         // of that mean
};

}  // namespace

std::unique_ptr<Synchronizer> make_local_sgd(LocalSgdParts parts, LocalSgdPlan plan,
                                             const OuterStep& outer) {
  return std::make_unique<LocalSgd>(std::move(parts), std::move(plan), outer);
}

}  // namespace eqt::train
