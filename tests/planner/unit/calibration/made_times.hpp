// SPDX-License-Identifier: Apache-2.0
// Computing times of a run that did not happen.

#pragma once

#include <string>
#include <utility>

#include "planner/calibration/calibration.hpp"

namespace eqt::test {

/// Ten steps of ResNet-20 on CIFAR-10.
inline planner::RunTimes made_times(std::string run, std::uint64_t batch, double step_seconds) {
  return {.run = std::move(run),
          .host = "pi0",
          .model = "resnet20",
          .precision = "fp32",
          .dataset = "cifar10",
          .parameters = 1000,
          .threads_per_rank = 4,
          .batch_size = batch,
          .steps = 10,
          .step_seconds = step_seconds};
}

}  // namespace eqt::test
