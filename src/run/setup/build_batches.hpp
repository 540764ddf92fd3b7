// SPDX-License-Identifier: Apache-2.0
// Batches of another size on each rank, from config keys.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "train/batch_balancer.hpp"

namespace eqt::setup {

/// Samples per batch by rank, with which the run begins.
/// @pre config.train.has_batches_by_rank()
/// @throws Error{usage}: a list of another length
std::vector<std::size_t> first_batches(const config::RunConfig& config, int ranks);

/// Samples of a batch of all ranks.
std::size_t samples_of_all_ranks(const config::RunConfig& config, int ranks);

/// n b_i / B by rank.
std::vector<double> batch_weights(const std::vector<std::size_t>& batches);

/// Null if all ranks have batches of the same size. @throws Error{usage}, Error{data}
std::unique_ptr<train::BatchBalancer> build_balancer(const config::RunConfig& config,
                                                     comm::Communicator& comm);

}  // namespace eqt::setup
