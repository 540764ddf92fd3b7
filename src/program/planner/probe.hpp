// SPDX-License-Identifier: Apache-2.0
// A short run tells how noisy gradients are and how fast the accuracy rises: the steps to a target
// with any batch follow. Private to the room.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace eqt::planner {

/// Steps of a run that stand in one of its records.
struct ProbedNoise {
  double step = 0;   // completed
  double scale = 0;  // X, the gradient noise scale [samples]; infinite: noise hides the gradient
  double share = 0;  // q, what compression adds, in units of the noise of the mean over the batch
};

/// The share of the test set that is right after so many steps.
struct ProbedAccuracy {
  double step = 0, accuracy = 0;
};

/// A run of the config's network from which steps to a target are estimated.
struct Probe {
  std::string run;  // its folder
  config::RunConfig config;
  int ranks = 1;
  double samples = 0;  // of all ranks in a step
  std::vector<ProbedAccuracy> accuracies;
  std::vector<ProbedNoise> noise;
};

/// Reads a run folder.
/// @throws Error{usage} for a path that is no folder, Error{data} for one without a run, for a run
/// that computed nothing or took local steps, and for one without an evaluation or a record of the
/// noise scale
Probe read_probe(const std::string& folder);

/// Steps after which a run reaches an accuracy.
struct StepsToAccuracy {
  double steps = 0;
  // The first evaluation is above it, so that fewer steps may suffice.
  bool at_most = false;
  // None of the evaluations is: error(s) = asymptote + factor * (s / last)^-power was fitted to
  // them, with `last` the steps of the last one.
  bool fitted = false;
  double asymptote = 0, factor = 0, power = 0;
};

/// A fitted curve tells nothing about more than so many times the steps of its last evaluation.
inline constexpr double kMostExtrapolation = 4;

/// Between two evaluations the accuracy is taken to rise in proportion to the steps. Beyond them a
/// power law with an asymptote is fitted by least squares, the form of learning curves (J. Hestness
/// et al., "Deep Learning Scaling is Predictable, Empirically", 2017, arXiv:1712.00409, where it is
/// shown for the number of samples).
/// @param accuracies  in the order of steps
/// @param accuracy  above 0, below 1
/// @param run  named in errors
/// @throws Error{data} if the accuracy was not reached and there are fewer than three evaluations,
/// they do not rise, their asymptote is below it, or it is kMostExtrapolation times as far
StepsToAccuracy steps_to_accuracy(std::span<const ProbedAccuracy> accuracies, double accuracy,
                                  const std::string& run);

/// The median of X and the mean of q over the first `steps` steps: each record stands for the steps
/// since the one before, the last one also for those after it. A mean of X would follow the few
/// records in which hardly any gradient was left. `step` of the result is `steps`.
/// @pre there is a record
/// @throws Error{data} if noise hides the gradient in half of the steps or more
ProbedNoise noise_until(std::span<const ProbedNoise> noise, double steps, const std::string& run);

}  // namespace eqt::planner
