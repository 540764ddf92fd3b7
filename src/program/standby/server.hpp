// SPDX-License-Identifier: Apache-2.0
// A process in standby: it has loaded the program's libraries, which takes a board seconds, and its
// copies become the ranks that mpirun starts.

#pragma once

#include <functional>
#include <string>

namespace eqt::standby {

/// A program's main().
using Main = std::function<int(int argc, char** argv)>;

/// Waits at the socket `path` for equant-standby, and copies itself for each request. A copy has
/// the request's arguments, environment, working directory, standard streams, limits and
/// processors, calls `main` and returns its result. It refuses, so that the program is started as
/// usual, unless the request is for this very program, from the same user, and unless its libraries
/// would have been loaded alike.
///
/// A copy dies with equant-standby, and with this process. This process ends on SIGTERM, when its
/// parent ends if that is the process `parent` (0: none), and when another takes its place at
/// `path`; before that it waits for its copies.
/// @pre the process has one thread
/// @return 0 in this process, main's result in a copy
/// @throws Error{output} if no socket can be made there
int serve(const std::string& path, int parent, const Main& main);

}  // namespace eqt::standby
