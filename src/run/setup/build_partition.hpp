// SPDX-License-Identifier: Apache-2.0
// The key data.partition becomes shards, and what a run says about them.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "config/run_config.hpp"
#include "data/partition.hpp"
#include "data/partition_plan.hpp"
#include "metrics/records.hpp"

namespace eqt::setup {

/// The shards of all ranks, each with at least one batch; with data.partition.reshuffle those of
/// the first epoch, whose sizes are those of every epoch.
/// @param labels of the training set, each in [0, classes); all 0 if there are no classes
/// @throws Error{usage} if there is none such; the same on every rank
data::PartitionPlan plan_partition(const config::RunConfig& config, std::span<const int> labels,
                                   int classes, int ranks);

/// The samples that a rank visits, epoch by epoch; takes its shard out of the plan.
/// @param samples of the training set
std::unique_ptr<data::Partition> make_partition(const config::RunConfig& config,
                                                data::PartitionPlan& plan, std::size_t samples,
                                                int rank);

metrics::PartitionRecord describe_partition(const config::RunConfig::Data::Partition& config,
                                            const data::PartitionPlan& plan,
                                            std::span<const int> labels, int classes);

}  // namespace eqt::setup
