// SPDX-License-Identifier: Apache-2.0
// The states of the other ranks of this host, as the operating system shows them.

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

/// The ranks of this host whose processes this one can see, except `own`.
/// @param processes every rank's process number
std::vector<LocalPeer> visible_peers(std::span<const std::uint64_t> processes,
                                     std::span<const Rank> ranks_on_this_host, Rank own);

/// "rank 1 is stopped (SIGSTOP), rank 2 has ended": the ranks that cannot answer; "" if all can.
std::string describe_troubled(std::span<const LocalPeer> peers);

/// Returns true if a thread of this process waits for a device or a file system and cannot be ended
/// by a signal. Waiting for the process to end then takes as long.
bool has_unkillable_thread();

}  // namespace eqt::comm
