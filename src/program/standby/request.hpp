// SPDX-License-Identifier: Apache-2.0
// A request says what equant-standby asks the process in standby to become: a command as mpirun
// would start it.

#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eqt::standby {

/// Which file a program is. Another build at the same path is another file, or a later one.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;  // inode
  std::int64_t changed = 0;  // nanoseconds since 1970
  bool operator==(const FileIdentity&) const = default;
};

/// The identity of the file at `path`, or nothing if there is none.
std::optional<FileIdentity> identity_of(const char* path);

/// All that a new process inherits from the one that starts it, besides its open files.
struct Request {
  FileIdentity program;
  std::string folder;                  // the working directory
  std::vector<std::string> arguments;  // the first is the program
  std::vector<std::string> variables;  // of the environment, NAME=VALUE
  mode_t mask = 0;                     // of the permissions of new files
  cpu_set_t processors = {};           // on which it may run
  std::array<rlimit, RLIM_NLIMITS> limits = {};
};

/// The request for a command of this process's own: what it has inherited itself.
/// @pre `arguments` has a program
/// @return nothing where that cannot be told: no such program, no working directory
std::optional<Request> own_request(std::vector<std::string> arguments);

/// Sends it with the descriptors 0, 1 and 2 of this process.
/// @return false if the other end does not take it
bool send(int connection, const Request& request);

/// Receives a request, and puts its three descriptors in place of 0, 1 and 2.
/// @return nothing if it is not whole, or is none
std::optional<Request> receive(int connection);

/// Whether a process that was started with `before` has loaded its libraries as one that is
/// started with `now` would: some variables decide while a library is being loaded.
bool load_alike(const std::vector<std::string>& before, const std::vector<std::string>& now);

}  // namespace eqt::standby
