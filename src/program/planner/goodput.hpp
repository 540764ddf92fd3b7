// SPDX-License-Identifier: Apache-2.0
// Failures of boards take a part of a run's time under run_hosts.sh --elastic; this says how much
// of it is left. It is pure arithmetic.

#pragma once

namespace eqt::planner {

inline constexpr double kDay = 86400;  // [seconds]

/// Failures come at random, as a Poisson process, and one at a time. All times in seconds.
struct Failures {
  double per_second = 0;       // of all boards together
  double restart_seconds = 6;  // from a failure to the first new step
  double join_seconds = 5;     // from the last step without a board to the first with it
  double absent_seconds = 60;  // until a lost board answers again
  int boards = 1;              // at least 1; those that are left compute the lost one's samples
  double save_seconds = 0;     // for which a state in memory keeps a rank from training
};

/// The part of the time in which steps are computed that count, at the speed of all boards: 1 -
/// c / T - L (R + T / 2 + J + A / n), with an interval T between states, of which a failure loses
/// half, save_seconds c, a rate of failures L, and their times R, J and A above; not below 0.
/// @param interval > 0 [seconds]
double goodput_of(const Failures& failures, double interval);

/// The interval between states with the most goodput, sqrt(2 c / L); infinite without failures.
/// Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM
/// 17(9), 1974.
double best_interval_of(const Failures& failures);

/// The interval that the program keeps: a second, and more where c is above a hundredth of it.
double interval_in_memory(const Failures& failures);

}  // namespace eqt::planner
