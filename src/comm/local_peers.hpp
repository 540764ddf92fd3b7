// The other ranks of this host, looked at from outside MPI.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/layout.hpp"

namespace eqt::comm {

struct LocalPeer {
  Rank rank = 0;
  pid_t process = 0;
};

/// The ranks of this host whose processes can be seen from here, without `own`.
/// @param processes every rank's process number
std::vector<LocalPeer> visible_peers(std::span<const std::uint64_t> processes,
                                     std::span<const Rank> ranks_on_this_host, Rank own);

/// "rank 1 is stopped (SIGSTOP), rank 2 has ended": those that cannot answer; "" if all could.
std::string describe_troubled(std::span<const LocalPeer> peers);

/// Whether a thread of this process waits for a device or a file system in a way that no signal
/// ends: whoever waits for the process to die then waits as long.
bool has_unkillable_thread();

}  // namespace eqt::comm
