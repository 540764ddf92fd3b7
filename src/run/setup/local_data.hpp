// SPDX-License-Identifier: Apache-2.0
// Ranks with data of their own (data.partition.kind "local") agree on what they learn: classes,
// standardization, steps of an epoch, the test set.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "data/dataset.hpp"
#include "data/partition_plan.hpp"
#include "metrics/records.hpp"

namespace eqt::setup {

/// All ranks know this of all sets once they have agreed. It is the same on every rank.
struct LocalData {
  std::vector<std::uint64_t> train_samples;  // by rank
  std::vector<std::uint64_t> test_samples;   // by rank; rank 0's alone where it is everyone's
  std::vector<std::string> class_names;      // of all ranks, by their common number
  data::ClassHistogram class_histogram;      // (ranks, classes); of training
};

/// Returns what a rank tells the others of its set.
std::string told(const data::DatasetPair& pair);

/// Returns what all know of the sets of all ranks by that, with every rank's own test set.
/// @throws Error{data} as agree_on_local_data()
LocalData known_of(const std::vector<std::string>& told);

/// Gives the same class the same number on all ranks, in the order of names (of numbers, if all
/// names are such), and prepares all sets with the moments of all training samples together.
/// Afterwards own test sets are those that data.partition.test asks for.
/// @param own this rank's set, or those of all simulated ranks
/// @throws Error{data}, the same on every rank, where sets cannot be learnt together: inputs or
/// targets of another kind, names of classes that read alike, or as data::require_usable_figures().
/// Collective.
LocalData agree_on_local_data(const config::RunConfig& config, comm::Communicator& comm,
                              std::vector<data::DatasetPair>& own);

/// Steps of an epoch by data.partition.epoch, see data::LocalEpoch.
/// @throws Error{usage} if there is none
std::uint64_t local_steps_per_epoch(const config::RunConfig& config, const LocalData& data);

/// Returns what each rank's loss is multiplied by: R n_r / N with data.partition.epoch "weighted",
/// where rank r has n_r of all N samples of R ranks, so that the mean over ranks is that over
/// samples; 1 otherwise.
std::vector<double> loss_weights(const config::RunConfig& config, const LocalData& data);

/// A rank's skew is the total variation distance between its classes and those of all ranks, 1/2
/// sum_c |p_r(c) - p(c)|: 0 is the same mixture, 1 - 1 / R a class of its own.
metrics::PartitionRecord describe_local(const config::RunConfig& config, const LocalData& data);

}  // namespace eqt::setup
