// SPDX-License-Identifier: Apache-2.0
// The search for the learning rate of a job's probe: short runs with rates a factor of two apart.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace eqt::planner {

/// A rate that was tried from the first weights on.
struct TriedRate {
  double rate = 0;
  std::optional<double> loss;  // test loss at the end; none: it diverged
  double seconds = 0;          // of the run
};

/// A RateSearch holds what was tried with one batch, in the order of trials, and what was found.
struct RateSearch {
  std::vector<TriedRate> tried;
  std::uint64_t steps = 0;  // of each run
  double short_rate = 0;    // the best of runs as short as these, see best_rate()
  double rate = 0;          // counts as the best of the whole run
};

/// Returns the rate to try next: the config's own first, then twice the best so far, then half of
/// it, until both were tried. None is left after `most` trials. If all have diverged, it is half of
/// the least.
std::optional<double> next_rate(std::span<const TriedRate> tried, double own, std::uint64_t most);

/// Returns the rate at the vertex of the parabola through the losses, over the rate's logarithm, of
/// the best rate and its two neighbours, with three digits; at most a factor of sqrt(2) from the
/// best one. It is the best one itself where a neighbour diverged or was not tried.
/// @throws Error{diverged} if all have diverged
double best_rate(std::span<const TriedRate> tried);

/// A run that is longer than the trials needs a lower rate, if that is constant: stochastic descent
/// with a rate a comes within O(a) + O((1 - a c)^T) of the minimum in T steps (L. Bottou et al.,
/// "Optimization Methods for Large-Scale Machine Learning", 2018, arXiv:1606.04838, theorem 4.6).
/// That is least for a in proportion to about ln T / T: about half, if the target takes two to
/// three times the steps of a trial. A rate that falls to the end of each run stays as it is.
inline constexpr double kLongerRun = 0.5;

/// Returns the test loss at the end of a run; none, if it is not finite.
/// @param steps becomes that of the run
/// @throws Error as report::read_run(), and Error{data} for a run without an evaluation
std::optional<double> final_loss(const std::string& folder, std::uint64_t& steps);

/// "Learning rates tried for 23 steps each: 0.2 (loss 1.71), 0.4 (1.54) and 0.8 (diverged); 0.4 is
/// the best of such short runs, and 0.2 counts as that of the whole run." If the best is the last
/// of a search that has reached its end, the sentence names train.tune_rates.
std::string sentence_of(const RateSearch& search);

}  // namespace eqt::planner
