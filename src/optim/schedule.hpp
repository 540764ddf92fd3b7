// The learning rate of each step.

#pragma once

#include <memory>
#include <vector>

#include "core/layout.hpp"

namespace eqt::optim {

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual float rate(StepId step) const = 0;
};

struct ScheduleOptions {
  enum class Kind { constant, step, cosine } kind = Kind::constant;
  double learning_rate = 0.1;      // after warm-up
  std::vector<double> milestones;  // step: epochs at which the rate is multiplied by factor
  double factor = 0.1;
  // Steps of warm-up rise linearly from learning_rate / (their number) to learning_rate (P. Goyal
  // et al., arXiv:1706.02677, section 2.2). They delay no milestone; a cosine starts after them.
  double warmup_epochs = 0;
  StepId steps_per_epoch = 1;
  StepId total_steps = 1;  // cosine: reaches 0 after the last of these
};
/// @throws Error{usage} when a rate, factor or number of epochs is out of range
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

}  // namespace eqt::optim
