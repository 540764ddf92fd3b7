// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/error.hpp"
#include "optim/optimizer.hpp"

namespace eqt::optim {
namespace {

/// The product of the linear warm-up and the factor after it, which subclasses define.
class WarmedSchedule : public Schedule {
 public:
  explicit WarmedSchedule(const ScheduleOptions& options)
      : options_(options), warmup_steps_(to_steps(options.warmup_epochs)) {}

  float rate(StepId step) const final {
    const double warmth = step < warmup_steps_
                              ? static_cast<double>(step + 1) / static_cast<double>(warmup_steps_)
                              : 1.0;
    return static_cast<float>(options_.learning_rate * warmth * factor(step));
  }

 protected:
  /// The factor of the base rate at `step`, apart from the warm-up.
  virtual double factor(StepId step) const = 0;

  StepId to_steps(double epochs) const {
    return static_cast<StepId>(
        std::llround(epochs * static_cast<double>(options_.steps_per_epoch)));
  }

  const ScheduleOptions options_;
  const StepId warmup_steps_;
};

class ConstantSchedule final : public WarmedSchedule {
 public:
  using WarmedSchedule::WarmedSchedule;

 private:
  double factor(StepId) const override { return 1; }
};

class StepSchedule final : public WarmedSchedule {
 public:
  explicit StepSchedule(const ScheduleOptions& options) : WarmedSchedule(options) {
    for (const double epoch : options.milestones) drops_.push_back(to_steps(epoch));
  }

 private:
  double factor(StepId step) const override {
    const auto passed =
        std::count_if(drops_.begin(), drops_.end(), [step](StepId drop) { return step >= drop; });
    return std::pow(options_.factor, static_cast<double>(passed));
  }

  std::vector<StepId> drops_;
};

/// Falls from 1 to 0 over the steps after the warm-up.
class FallingSchedule : public WarmedSchedule {
 public:
  using WarmedSchedule::WarmedSchedule;

 private:
  /// @param all steps after the warm-up, of which `done` are done: 0 ... all - 1
  virtual double fallen(double done, double all) const = 0;
  double factor(StepId step) const final {
    if (step < warmup_steps_) return 1;
    if (step >= options_.total_steps) return 0;
    return fallen(static_cast<double>(step - warmup_steps_),
                  static_cast<double>(options_.total_steps - warmup_steps_));
  }
};

/// Half a period of a cosine (I. Loshchilov, F. Hutter, arXiv:1608.03983, eq. (5) without
/// restarts).
class CosineSchedule final : public FallingSchedule {
 public:
  using FallingSchedule::FallingSchedule;

 private:
  double fallen(double done, double all) const override {
    return 0.5 * (1 + std::cos(std::numbers::pi * done / all));
  }
};

/// A straight line (J. Devlin et al., arXiv:1810.04805, appendix A.2): the last step has the
/// smallest rate above 0, and one more would have 0.
class LinearSchedule final : public FallingSchedule {
 public:
  using FallingSchedule::FallingSchedule;

 private:
  double fallen(double done, double all) const override { return (all - done) / all; }
};

void check_options(const ScheduleOptions& o) {
  // Far beyond any run, and small enough that epochs * steps is exact in a double.
  constexpr double kMaxEpochs = 1e9;
  const auto is_epoch = [](double epoch) { return epoch >= 0 && epoch <= kMaxEpochs; };
  check(std::isfinite(o.learning_rate) && o.learning_rate >= 0, "optimizer.learning_rate",
        "a finite number >= 0", o.learning_rate);
  check(std::isfinite(o.factor) && o.factor > 0, "schedule.factor", "a finite number > 0",
        o.factor);
  check(is_epoch(o.warmup_epochs), "schedule.warmup_epochs", "between 0 and 1e9", o.warmup_epochs);
  for (const double epoch : o.milestones) {
    check(is_epoch(epoch), "every one of schedule.milestones", "between 0 and 1e9", epoch);
  }
  EQT_CHECK(o.steps_per_epoch >= 1 && o.total_steps >= 1, "{} steps per epoch, {} in total",
            o.steps_per_epoch, o.total_steps);
}

template <typename Kind>
std::unique_ptr<Schedule> make(const ScheduleOptions& options) {
  return std::make_unique<Kind>(options);
}

constexpr std::string_view kStepKeys[] = {"milestones"};
constexpr std::string_view kFactorKeys[] = {"factor"};

}  // namespace

const ScheduleRow kConstant = {.name = "constant",
                               .about = "the learning rate as it is",
                               .make = make<ConstantSchedule>,
                               .changes_rate = false};
const ScheduleRow kStep = {.name = "step",
                           .about = "times schedule.factor at each of schedule.milestones",
                           .make = make<StepSchedule>,
                           .keys = kStepKeys,
                           .read_beside = kFactorKeys};
const ScheduleRow kCosine = {
    .name = "cosine",
    .about = "half a cosine from the learning rate to 0 at the end of the run",
    .make = make<CosineSchedule>};
const ScheduleRow kLinear = {
    .name = "linear",
    .about = "a straight line from the learning rate to 0 at the end of the run",
    .make = make<LinearSchedule>};

const Catalogue<ScheduleRow>& ScheduleRow::all() {
  static const Catalogue<ScheduleRow> rows = {kConstant, kStep, kCosine, kLinear};
  return rows;
}

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options) {
  check_options(options);
  return options.kind->make(options);
}

}  // namespace eqt::optim
