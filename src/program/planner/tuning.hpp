// SPDX-License-Identifier: Apache-2.0
// Batch, local steps and learning rate, chosen together for the least time to an accuracy on a
// cluster. Private to the room.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/catalogue.hpp"
#include "planner/calibration/calibration.hpp"
#include "planner/planned_run.hpp"
#include "planner/probe.hpp"

namespace eqt::planner {

/// A step of all ranks' batches, or a round of several local steps of each.
struct RoundOfSteps {
  double samples = 0;      // B, of all ranks in a step
  double local_steps = 1;  // H
  double noise_scale = 0;  // X [samples]
  double added_noise = 0;  // q of compression_noise()
};

/// Steps to a target, of which an unlimited batch takes `steps_at_1`: a round counts as one step
/// with all its samples, so that they are H S (1 + (1 + q) X / (H B)). That a round of local SGD
/// is no worse than such a step is proven for quadratic losses only; for some convex ones it is
/// worse (B. Woodworth et al., "Is Local SGD Better than Minibatch SGD?", 2020, arXiv:2002.07839).
/// Here it is an assumption.
double steps_of_rounds(double steps_at_1, const RoundOfSteps& round);

/// Returns the learning rate that goes with `to`, if `rate` goes with `from`. The best rate of a
/// batch B is in proportion to 1 / (1 + X / B) (S. McCandlish et al., 2018, arXiv:1812.06162,
/// equation 2.6); H local steps share that of a batch H B, so that it is 1 / (H + X / B).
/// @param scale_free  the optimizer's updates do not grow with the gradient: the square root of the
///   same ratio, as appendix E.2 there and S. Malladi et al., 2022, arXiv:2205.10287 have it for
///   Adam
double rate_for(const RoundOfSteps& to, double rate, const RoundOfSteps& from, bool scale_free);

/// Candidates have batches of the config's times powers of two from 1/8 to 16, and these steps.
inline constexpr std::uint64_t kLocalSteps[] = {1, 2, 4, 8, 16};

struct Candidate {
  std::size_t batch = 0;  // of a rank
  std::uint64_t local_steps = 1;
  double rate = 0;
  std::vector<std::string> sets{};  // "key=JSON": what makes it of the config
  PlannedRun run{};
  double target_steps = 0, target_seconds = 0;
};

/// A TuningInput holds what is known before candidates are compared.
struct TuningInput {
  const std::string& config_text;
  const std::string& config_path;  // named in errors
  const std::vector<std::string>& sets;
  const ClusterFile& cluster;  // before complete()
  const std::string& cluster_path;
  const Calibration& calibration;
  const std::optional<data::DatasetFacts>& facts;
  Subject subject;  // of the config; memory of candidates is their own
  double accuracy = 0;
};

struct Tuning {
  double accuracy = 0;
  std::string probe;  // its folder
  StepsToAccuracy steps;
  ProbedNoise noise;      // X and q of the probe
  double samples = 0;     // of the probe's step
  double steps_at_1 = 0;  // S
  bool scale_free = false;
  std::vector<Candidate> candidates;     // the soonest first
  Candidate as_it_is;                    // the config's own batch, local steps and rate
  double law_rate = 0;                   // goes with the config's batch and local steps
  std::optional<Candidate> one_board{};  // with the best batch for it; none: there is only one
  std::vector<std::string> notes{};

  /// The time of `as_it_is` is that of another rate than the config's.
  bool has_other_rate() const;
  const Candidate& choice() const { return candidates.front(); }
  bool one_board_is_soonest() const {
    return one_board && one_board->target_seconds <= choice().target_seconds;
  }
};

/// Compares candidates and puts the choice first: within kTie of the soonest, it has the fewest
/// local steps and the batch nearest to the config's, for that needs the least of these laws.
/// @throws Error{usage} for a config of another network or optimizer than the probe's, with an
/// algorithm that tells no local steps, and one of which no candidate has a plan; Error{data} as
/// steps_to_accuracy()
Tuning tune(const TuningInput& input, const Probe& probe);

/// A sentence that names the choice, a table and the notes; or one JSON document.
void print_tuning(const Tuning& tuning, bool json);

/// "Soonest at an accuracy of 0.9: --set train.batch_size=128 ...".
std::string sentence_of(const Tuning& tuning);

}  // namespace eqt::planner
