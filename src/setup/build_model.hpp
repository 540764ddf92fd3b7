// SPDX-License-Identifier: Apache-2.0
// From config keys to a rank's replica of the network, or to a stand-in that only takes its time.

#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "model/replica.hpp"
#include "setup/build_data.hpp"

namespace eqt::setup {

struct ModelParts {
  std::unique_ptr<model::Replica> replica;
  int threads = 1;              // that compute
  std::uint64_t file_hash = 0;  // of a network of the user's own
};

/// The network for the data's pictures and classes; workers of a simulation share it.
/// @throws Error{usage}, Error{data} for a file of weights that is none
ModelParts build_model(const config::RunConfig& config, const comm::Communicator& comm,
                       int simulate, const DataParts& data);

/// The network of the config with the input and classes of the data set it was published for. Reads
/// the file of a network of the user's own.
/// @throws Error{data} if that cannot be read
model::ModelOptions published_network(const config::RunConfig& config);

/// A board that is not there: no data set, and the layout of the network as it was published.
/// @throws Error{usage} for a list of seconds that is not one per rank
ModelParts build_emulated_model(const config::RunConfig& config, const comm::Communicator& comm);

}  // namespace eqt::setup
