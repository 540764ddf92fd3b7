// SPDX-License-Identifier: Apache-2.0
// Config keys become a rank's replica of the network, or a stand-in that only takes its time; they
// say where the replica is, and how the optimizer treats its parameters.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "model/compute_device.hpp"
#include "model/emulated_replica.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "setup/build_data.hpp"

namespace eqt::setup {

struct ModelParts {
  std::unique_ptr<model::Replica> replica;
  int threads = 1;                      // that compute
  std::uint64_t file_hash = 0;          // of a network of the user's own
  model::Measures measures;             // how good it is
  std::vector<std::string> notes = {};  // what a user should know before training
};

/// This describes a data set for the network and its task.
struct LearntData {
  std::vector<data::ArraySpec> inputs;
  std::optional<data::ArraySpec> target;
  int classes = 0;
};

/// The network of the config for such data, without class weights that are found by a rule. Reads
/// the file of a network of the user's own.
/// @throws Error{usage} if the data is not for the task; Error{data} as published_network()
model::ModelOptions network_for(const config::RunConfig& config, const LearntData& data,
                                Rank rank = 0);

/// Returns true if the network begins with weights of files: of the folder model.path or
/// model.weights.
bool has_initial_weights(const config::RunConfig& config);

struct InitialWeights {
  std::vector<std::string> files;
  std::vector<std::string> notes;  // which parameters start new
};

/// Reads these weights.
/// @throws Error{data} for a file of weights that is none, or does not fit
InitialWeights load_initial_weights(const config::RunConfig& config, model::Replica& network);

/// The network for the data; workers of a simulation share it.
/// @throws Error{usage}, Error{data} for a file of weights that is none
ModelParts build_model(const config::RunConfig& config, const comm::Communicator& comm,
                       int simulate, const model::Placement& placement, const DataParts& data);

/// The network of the config with the input and classes of the data set it was published for. Reads
/// the file of a network of the user's own, at the place of this rank.
/// @throws Error{data} if that cannot be read
model::ModelOptions published_network(const config::RunConfig& config, Rank rank = 0);

/// The board that `rank` of `ranks` emulates.
/// @throws Error{usage} for a list that is not one number per rank, or a change of no rank
model::EmulationOptions emulation_of(const config::RunConfig& config, Rank rank, int ranks);

/// A board that is not there: no data set, and the layout of the network as it was published.
/// @throws Error{usage} as emulation_of()
ModelParts build_emulated_model(const config::RunConfig& config, const comm::Communicator& comm);

struct DeviceChoice {
  model::Placement placement;  // of this rank
  std::string note;            // for the reader of the records; empty: nothing to say
};

/// A rank as others see it.
struct RankDevices {
  std::string host;      // its name
  Rank first = 0;        // the host's first rank
  int local = 0;         // its place among the host's ranks
  int count = 0;         // of devices that it sees
  std::string obstacle;  // why it sees none
};

/// The devices of the ranks of each host are taken in turn: local rank modulo count.
/// @param ranks all, by rank
/// @throws Error{usage} for "cuda" if a rank has no device
DeviceChoice choose_device(const config::RunConfig& config, std::span<const RankDevices> ranks,
                           Rank own);

/// Chooses in this way for the ranks of `comm`. Collective.
/// @throws Error{usage} on all ranks
DeviceChoice choose_device(const config::RunConfig& config, comm::Communicator& comm);

/// The patterns of model.freeze and of the groups that are frozen.
std::vector<std::string> frozen_patterns(const config::RunConfig& config);

/// Returns the rates and decays of all trained parameters.
/// @throws Error{usage} if a group's pattern matches no trained parameter
UpdateRules update_rules(const config::RunConfig& config, const Layout& layout);

}  // namespace eqt::setup
