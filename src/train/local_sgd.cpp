// SPDX-License-Identifier: Apache-2.0
// Local SGD and post-local SGD.
//
// Rounds those of a gradient's mean, in every H-th step
// Sent     as much as for a gradient's mean
// State    1 model, the last average, and the memory of the mean. The difference is sent from the
//          gradient's buffer, which is free after an update.
// Source   S. Stich, ICLR 2019, arXiv:1805.09767; T. Lin et al., ICLR 2020, arXiv:1808.07217
// Deviates ranks average at the end of the run, but not at the end of an epoch

#include "train/local_sgd.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::train {
namespace {

class LocalSgd final : public Synchronizer {
 public:
  LocalSgd(LocalSgdParts parts, const LocalSgdPlan& plan)
      : p_(std::move(parts)), plan_(plan), reference_(p_.parameters.size()) {
    EQT_CHECK(plan.local_steps > 0, "models are averaged every 0 steps");
  }

  void begin(StepId step, std::uint64_t epoch) override {
    if (!started_) std::ranges::copy(p_.parameters, reference_.span().begin());
    started_ = true;
    step_ = step;
    epoch_ = epoch;
  }

  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return {};
  }

  SyncResult after_update(float rate) override {
    rates_ += rate;
    if (!plan_.averages_after(step_)) {
      SyncResult alone;
      alone.skipped = true;
      return alone;
    }
    const auto reference = reference_.span(), difference = p_.gradient;
    for (std::size_t i = 0; i < difference.size(); ++i)
      difference[i] = reference[i] - p_.parameters[i];
    require_finite(p_.layout, difference, 0, "the model's change", step_, p_.comm.rank(),
                   p_.divergence);
    p_.mean->begin(plan_.averages_before(step_), epoch_);
    SyncResult result = p_.mean->finish();
    for (std::size_t i = 0; i < difference.size(); ++i)
      p_.parameters[i] = reference[i] - difference[i];
    if (p_.direction != nullptr) p_.direction->observe(reference, p_.parameters, rates_);
    std::ranges::copy(p_.parameters, reference.begin());
    rates_ = 0;
    return result;
  }

  void visit_state(StateVisitor& visitor) override {
    double rates = static_cast<double>(rates_);
    std::uint64_t started = started_ ? 1 : 0;
    visitor.values("last average", reference_.span(), Across::same);
    visitor.real("rates since", rates, Across::same);
    visitor.number("started", started, Across::same);
    rates_ = static_cast<float>(rates);
    started_ = started != 0;
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    visit_in(visitor, "mean", *p_.mean);
  }

 private:
  const LocalSgdParts p_;
  const LocalSgdPlan plan_;
  FlatBuffer reference_;  // the model after the last average: the same on all ranks
  float rates_ = 0;       // sum of the learning rates since
  StepId step_ = 0;
  std::uint64_t epoch_ = 0;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Synchronizer> make_local_sgd(LocalSgdParts parts, const LocalSgdPlan& plan) {
  return std::make_unique<LocalSgd>(std::move(parts), plan);
}

}  // namespace eqt::train
