// SPDX-License-Identifier: Apache-2.0
// What a scheme takes on a cluster: seconds, bytes, joules, memory.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forecast/step_simulation.hpp"
#include "planner/planned_step.hpp"
#include "planner/scheme.hpp"

namespace eqt::planner {

struct PlannedRun {
  std::string scheme;
  int ranks = 1;
  std::string collective;
  forecast::StepForecast forecast;
  double samples = 0;  // of all ranks in a step
  std::optional<double> steps_per_epoch{}, epoch_seconds{}, epoch_joules{};
  // The step would gain so much at most if the next forward pass began before all means are there
  // and waited for each layer's alone; none: means are not waited for before the update.
  std::optional<double> forward_overlap{};
  double joules = 0;        // of a step, all boards; 0: no watts are known
  double price = 0;         // of all boards
  double memory_bytes = 0;  // of a rank
  // A noise scale gives these: q of compression_noise(), and steps and time to the target.
  std::optional<double> noise{}, target_steps{}, target_seconds{};
  // Says whether no other number of boards and no other scheme has less time and less cost; none:
  // prices and watts are not known, or it is the cluster's plan, not one of those by ranks.
  struct Fronts {
    bool price = false, joules = false;
  };
  std::optional<Fronts> pareto{};
  // None: the file says nothing of failures. What they leave of the time, and the best interval
  // between states in memory beside the program's [seconds].
  struct UnderFailures {
    double per_day = 0, goodput = 1, interval = 1, best_interval = 1;
  };
  std::optional<UnderFailures> under_failures{};
  std::vector<std::string> too_small{};  // kinds of boards whose memory does not suffice
  // Epochs of a compressor's warm-up, in order, whose steps take longer; all else is of later ones.
  // Empty in plans by ranks.
  struct FirstEpoch {
    double density = 1, step_seconds = 0;
  };
  std::vector<FirstEpoch> first_epochs{};
};

/// Time that a sample takes, by which schemes with other batches and ranks are compared.
inline double seconds_a_sample(const PlannedRun& run) {
  return run.forecast.mean_seconds / run.samples;
}

/// Holds what is the same for all plans of a command.
struct Subject {
  const PlannedNetwork& network;
  CodecSpeeds& codecs;
  MachineCosts machine;
  std::optional<std::uint64_t> samples;  // of an epoch
  // Activations, data and the program itself, in a rank's memory.
  std::uint64_t other_memory = 0;
  // The target takes so many steps with an unlimited batch, and has this noise scale [samples]; 0:
  // there is none.
  double steps_at_1 = 0, noise_scale = 0;
};

PlannedRun plan_run(const Scheme& scheme, const ClusterFile& cluster, const Subject& subject);

/// Plans what speeds are compared with: one board of the kind that computes most samples a second,
/// alone. Its ranks take the scheme's batch size and exchange nothing.
PlannedRun plan_one_board(const Scheme& scheme, const ClusterFile& cluster, const Subject& subject);

/// Epochs in which `compressor.warmup_epochs` still sends more values, as far as the config trains.
/// Of a long warm-up, epochs whose density is within 5 % of an earlier one's have its seconds.
/// @param run  the scheme's plan
std::vector<PlannedRun::FirstEpoch> first_epochs_of(const PlannedRun& run, const Scheme& scheme,
                                                    const ClusterFile& cluster,
                                                    const Subject& subject);

/// A scheme pays, in place of another or of one board alone, if it is so many times as fast.
inline constexpr double kGain = 1.01;

/// The rate of the slowest link [megabits/s] below which the scheme is at least 1 % faster than
/// `other`, if all rates change in proportion; 0: it never is; infinite: it always is, up to a
/// thousand times the rates.
double break_even_megabits(const Scheme& scheme, const Scheme& other, const ClusterFile& cluster,
                           const Subject& subject);

/// The rate of the slowest link [megabits/s] from which on the scheme takes at least 1 % more
/// samples a second than one board alone, if all rates change in proportion; 0: at all rates, down
/// to a millionth; infinite: at none, up to a thousand times the rates. What steps take longer
/// because they vary counts as at the cluster's own rates.
/// @param run  the scheme's plan on this cluster
/// @param alone  plan_one_board()
double paying_megabits(const PlannedRun& run, const PlannedRun& alone, const Scheme& scheme,
                       const ClusterFile& cluster, const Subject& subject);

/// The rate of the slowest link that boards are at [megabits/s].
double slowest_megabits(const ClusterFile& cluster);

/// Returns q, the variance that compression adds to the mean, in units of V, that of the mean over
/// a batch. As in adaptation/gradient_noise.hpp, of |G|^2 = 1 that is V = X / B, with the noise
/// scale X, and |g|^2 of each of n ranks is 1 + n V; each encoding adds the relative variance e of
/// what it encodes: e (1 + n V) / n for the ranks' gradients, and once more e (|G|^2 + V + that)
/// for each further quantisation of the mean.
/// @param variance e, as of normal values
/// @param quantisations of each value, one after the other
/// @param samples B, of all ranks
/// @pre ranks, quantisations >= 1; samples, noise_scale > 0
double compression_noise(double variance, int quantisations, int ranks, double samples,
                         double noise_scale);

/// Returns S (1 + (1 + q) X / B), the steps to a target, with S the steps of an unlimited batch.
/// Source: S. McCandlish et al., "An Empirical Model of Large-Batch Training", 2018,
/// arXiv:1812.06162, for q = 0; with compression the mean has (1 + q) times the variance.
/// @param noise q
double steps_to_target(double steps_at_1, double noise, double samples, double noise_scale);

}  // namespace eqt::planner
