// `doctor`: what the hosts of a job are, how fast the links between them are, what to change.

#pragma once

#include "app/command_line.hpp"

namespace eqt::app {

/// Run it on all ranks that shall train; alone it looks at this host. Rank 0 prints.
/// @return the exit code: warnings are no failure
int run_doctor(const DoctorCommand& command, int argc, char** argv);

}  // namespace eqt::app
