// A signal before the first step.

#pragma once

#include "comm/communicator.hpp"

namespace eqt::app {

/// Between two stages of the start: ends it on all ranks if any was told to stop.
/// @throws Error{interrupted} on all ranks. Collective.
void require_no_stop(comm::Communicator& comm);

}  // namespace eqt::app
