// What a rank can find out about the machine it runs on. No communication.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::comm {

/// Bytes through one network interface since it came up, link headers included.
struct InterfaceCount {
  std::string name;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t sent_packets = 0;  // batches that the kernel hands over count as one
};

/// The counters of this process's network namespace; empty where the system shows none.
std::vector<InterfaceCount> interface_counts();
/// The text of /proc/net/dev. Lines of another form are left out.
std::vector<InterfaceCount> parse_interface_counts(std::string_view text);
/// What each interface carried between two readings, the busiest first; those that carried less
/// than a quarter of the busiest are left out (a bond and its members all appear).
std::vector<InterfaceCount> carried_between(const std::vector<InterfaceCount>& before,
                                            const std::vector<InterfaceCount>& after);

/// Nominal speed of an interface [Mb/s]; 0 if it tells none.
int interface_megabits(const std::string& name);

struct Memory {
  std::uint64_t total_bytes = 0;      // of the machine, or the control group's limit if less
  std::uint64_t available_bytes = 0;  // without swapping
};
Memory memory();
/// The text of /proc/meminfo.
Memory parse_memory(std::string_view text);

/// Numbers of the cores that this process may use, ascending.
std::vector<int> allowed_cores();
int online_cores();
/// Threads for a rank that shares this host: its part of the cores, or what it was bound to if
/// that is less; at least 1.
int fair_threads(int ranks_on_this_host);
/// Cores' worth of time that the control group grants; 0 = no limit.
double core_quota();
std::string host_name();
/// One value per running kernel: containers and network namespaces of a machine share it.
std::string machine_id();

}  // namespace eqt::comm
