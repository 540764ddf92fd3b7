// SPDX-License-Identifier: Apache-2.0
// equant-train --config FILE: one rank of a training job.

#pragma once

#include "app/command_line.hpp"

namespace eqt::app {

/// Starts MPI, trains, writes the run folder. @return the exit code
int run_train(const TrainCommand& command, int argc, char** argv);

}  // namespace eqt::app
