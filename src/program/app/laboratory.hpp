// SPDX-License-Identifier: Apache-2.0
// What the environment says about the network that a job runs on, if that is no usual one.

#pragma once

#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "config/facts.hpp"

namespace eqt::app {

/// Delays that the job makes itself, and the shaped links that it runs on.
struct Laboratory {
  std::optional<comm::LinkDelay> link;  // from EQT_LINK: the same on every rank
  std::string shaped;                   // EQT_LABORATORY, as scripts/netlab.sh sets it; "" = none
};

/// Returns what must be equal on all ranks, before read_laboratory().
config::Facts laboratory_facts();

/// Reads the environment and makes `comm` hold messages.
/// @pre laboratory_facts() are equal on all ranks
/// @throws Error{usage} for a malformed text, and for EQT_LINK in a simulation
Laboratory read_laboratory(bool simulates, comm::Communicator& comm);

/// Returns what a reader of the records must know; "" without EQT_LINK.
std::string note_on_link(const Laboratory& laboratory);

}  // namespace eqt::app
