// SPDX-License-Identifier: Apache-2.0
// A rank finds out about its machine and the other ranks there without communication.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.hpp"

namespace eqt::comm {

/// Bytes through one network interface since it was started, link headers included.
struct InterfaceCount {
  std::string name;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t sent_packets = 0;  // a batch that the kernel hands over counts as one
};

/// The counters of this process's network namespace; empty if the system has none.
std::vector<InterfaceCount> interface_counts();
/// Reads the text of /proc/net/dev. Lines of another form are left out.
std::vector<InterfaceCount> parse_interface_counts(std::string_view text);
/// Returns what each interface carried between two readings, the busiest first. Interfaces that
/// carried less than a quarter of the busiest are left out (a bond and its members are all listed).
std::vector<InterfaceCount> carried_between(const std::vector<InterfaceCount>& before,
                                            const std::vector<InterfaceCount>& after);

/// Nominal speed of an interface [Mb/s]; 0 if unknown.
int interface_megabits(const std::string& name);

struct Memory {
  std::uint64_t total_bytes = 0;      // of the machine, or the control group's limit if less
  std::uint64_t available_bytes = 0;  // without swapping
};
Memory memory();
/// Reads the text of /proc/meminfo.
Memory parse_memory(std::string_view text);
/// Reads the text of a control group's memory.stat, of either version: bytes that count as used and
/// that the kernel gives up when memory is wanted, pages of files first of all.
std::uint64_t parse_reclaimable(std::string_view text);

/// Numbers of the cores that this process may use, ascending.
std::vector<int> allowed_cores();
int online_cores();
/// Threads for a rank that shares this host: its part of the cores, or the cores that it is bound
/// to if these are fewer; at least 1.
int fair_threads(int ranks_on_this_host);
/// CPU time per second that the control group allows [cores]; 0 = no limit.
double core_quota();
std::string host_name();
/// Returns the processor's name as its maker calls it, or the board's name where it says none;
/// "unknown" if neither is known.
std::string processor_name();
/// Reads the text of /proc/cpuinfo.
std::string parse_processor_name(std::string_view text);
/// Identifies the running kernel: the same in all containers and network namespaces of a machine.
std::string machine_id();

/// Returns the time since a process of this machine was started [seconds], to a hundredth; none if
/// the system does not say it.
std::optional<double> age_of_process(pid_t process);
/// Reads the text of /proc/PID/stat: when the process was started, in the system's ticks since it
/// was booted; none if the text has another form.
std::optional<std::uint64_t> parse_start_ticks(std::string_view text);
/// Returns the age of the mpirun that is this process's parent [seconds]; none if its parent is
/// another program, as on hosts that mpirun reaches over the network.
std::optional<double> age_of_mpirun();

/// Another rank of this host, whose state the operating system shows.
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
