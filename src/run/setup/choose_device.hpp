// SPDX-License-Identifier: Apache-2.0
// Where each rank trains its network.

#pragma once

#include <span>
#include <string>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "model/compute_device.hpp"

namespace eqt::setup {

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

}  // namespace eqt::setup
