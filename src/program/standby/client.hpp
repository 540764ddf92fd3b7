// SPDX-License-Identifier: Apache-2.0
// Starts a program from its process in standby. To mpirun it is the rank: it passes signals on, and
// ends as the rank does.

#pragma once

#include <string>
#include <vector>

namespace eqt::standby {

/// Asks the process in standby at the socket `path` to become `arguments`, and waits for its end.
/// Where none is there, or it refuses, replaces this process by that program.
/// @pre `arguments` has a program
/// @return the program's exit code; 127 if it cannot be started at all. After a signal that has
///         ended the program, the same signal ends this process
int start(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace eqt::standby
