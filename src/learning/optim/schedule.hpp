// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step.

#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "core/layout.hpp"

namespace eqt::optim {

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual float rate(StepId step) const = 0;
};

struct ScheduleOptions;

/// A kind of schedule. To add one, add its row below and in schedule.cpp.
struct ScheduleRow {
  std::string_view name, about;
  std::unique_ptr<Schedule> (*make)(const ScheduleOptions& options);  // @pre options are in range
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other kind
  /// Keys that only this kind reads, too, and others accept without effect.
  std::span<const std::string_view> read_beside = {};
  bool changes_rate = true;  // after the warm-up

  /// Returns all rows, in the order of the documentation.
  static const Catalogue<ScheduleRow>& all();
};
extern const ScheduleRow kConstant, kStep, kCosine, kLinear;

struct ScheduleOptions {
  Entry<ScheduleRow> kind = kConstant;
  double learning_rate = 0.1;      // after warm-up
  std::vector<double> milestones;  // step: epochs at which the rate is multiplied by factor
  double factor = 0.1;
  // Over the steps of the warm-up the rate rises linearly from learning_rate / (their number) to
  // learning_rate (P. Goyal et al., arXiv:1706.02677, section 2.2). It does not delay milestones; a
  // cosine or a straight line starts after it.
  double warmup_epochs = 0;
  StepId steps_per_epoch = 1;
  StepId total_steps = 1;  // cosine, linear: 0 after the last of these
};

/// @throws Error{usage} when a rate, factor or number of epochs is out of range
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

}  // namespace eqt::optim
