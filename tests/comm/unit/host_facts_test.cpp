// SPDX-License-Identifier: Apache-2.0
#include "comm/host_facts.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace eqt;
using comm::InterfaceCount;

namespace {

// As printed by Linux 6.1; there may be no space between the name and a long first number.
constexpr const char* kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
    "fifo colls carrier compressed\n"
    "    lo:     500       5    0    0    0     0          0         0      500       5    0    0  "
    "  0     0       0          0\n"
    "eth0.7:18446744073709551000 36884 0 0 0 0 0 0 1611478 21621 0 0 0 0 0 0\n"
    "  bad0: 1 2 3\n";

std::vector<std::string> names(const std::vector<InterfaceCount>& counts) {
  std::vector<std::string> result;
  for (const auto& count : counts) result.push_back(count.name);
  return result;
}

}  // namespace

TEST_CASE("interface counters are read from the kernel's table", "[host]") {
  const auto counts = comm::parse_interface_counts(kNetDev);
  REQUIRE(names(counts) == std::vector<std::string>{"lo", "eth0.7"});
  CHECK(counts[0].received_bytes == 500);
  CHECK(counts[0].sent_bytes == 500);
  CHECK(counts[1].received_bytes == 18446744073709551000U);
  CHECK(counts[1].sent_bytes == 1611478);
  CHECK(counts[1].sent_packets == 21621);
  CHECK(comm::parse_interface_counts("").empty());
  CHECK(comm::parse_interface_counts("nonsense\n: \n").empty());
}

TEST_CASE("the interface that carried the bytes is the one whose counters changed", "[host]") {
  const std::vector<InterfaceCount> before = {
      {"lo", 1000, 1000}, {"eth0", 18446744073709551615U, 5}, {"bond0", 0, 0}, {"gone0", 1, 1}};
  const std::vector<InterfaceCount> after = {
      {"lo", 1100, 1100}, {"eth0", 3999, 4005}, {"bond0", 4100, 4000}, {"new0", 9999999, 9999999}};
  const auto carried = comm::carried_between(before, after);
  REQUIRE(names(carried) == std::vector<std::string>{"bond0", "eth0"});
  CHECK(carried[1].received_bytes == 4000);  // across the counter's wrap
  CHECK(carried[1].sent_bytes == 4000);
  CHECK(comm::carried_between(before, before).empty());
}

TEST_CASE("the start of a process is field 22 of its line, whatever its name", "[host]") {
  const std::string rest =
      " S 4633 4633 7478 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 2217074 3133440 414\n";
  CHECK(comm::parse_start_ticks("4644 (cat)" + rest) == 2217074U);
  CHECK(comm::parse_start_ticks("4644 (a) b 1 (c)" + rest) == 2217074U);
  for (const char* wrong : {"", "4644", "4644 (cat) S 1 2 3", "4644 (cat)"})
    CHECK_FALSE(comm::parse_start_ticks(wrong));
  CHECK_FALSE(comm::parse_start_ticks("1 (x) S 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 x"));
}

TEST_CASE("the age of a process grows with time, and one that is none has no age", "[host]") {
  const std::optional<double> before = comm::age_of_process(getpid());
  if (!before) {
    std::cout << "[eqt-note] this system does not say when a process was started\n";
    return;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double passed = comm::age_of_process(getpid()).value() - *before;
  CHECK(passed >= 0.19);
  CHECK(passed < 60);  // seconds, whatever else the machine does
  CHECK_FALSE(comm::age_of_process(-1));
  CHECK_FALSE(comm::age_of_mpirun());  // CTest or a shell started this test
}

TEST_CASE("memory is read in kibibytes", "[host]") {
  const auto memory = comm::parse_memory(
      "MemTotal:       24619416 kB\nMemFree:        20183000 kB\nMemAvailable:   23600000 kB\n"
      "HugePages_Total:       0\n");
  CHECK(memory.total_bytes == 24619416ULL * 1024);
  CHECK(memory.available_bytes == 23600000ULL * 1024);
  CHECK(comm::parse_memory("").total_bytes == 0);
}

TEST_CASE("pages of files in a control group can be given up", "[host]") {
  CHECK(comm::parse_reclaimable("anon 7\nfile 900\nshmem 100\ninactive_file 500\n"
                                "active_file 300\nslab_reclaimable 20\n") == 820);
  CHECK(comm::parse_reclaimable("cache 3\ninactive_file 1\nactive_file 2\ntotal_cache 900\n"
                                "total_inactive_file 500\ntotal_active_file 300\n") == 800);
  CHECK(comm::parse_reclaimable("") == 0);
}

TEST_CASE("this machine's facts are plausible", "[host]") {
  const auto cores = comm::allowed_cores();
  CHECK(!cores.empty());
  CHECK(std::is_sorted(cores.begin(), cores.end()));
  CHECK(comm::online_cores() >= 1);
  CHECK(comm::core_quota() >= 0);
  CHECK(!comm::host_name().empty());
  const auto memory = comm::memory();
  CHECK(memory.available_bytes > 0);
  CHECK(memory.available_bytes <= memory.total_bytes);
}

TEST_CASE("a processor's name is its maker's, or the board's", "[host]") {
  const auto name = [](const char* text) { return comm::parse_processor_name(text); };
  CHECK(name("processor\t: 0\nmodel name\t: AMD EPYC 9V74  \nmodel name\t: x\n") ==
        "AMD EPYC 9V74");
  CHECK(name("CPU part\t: 0xd08\nModel\t\t: Raspberry Pi 4 Model B\n") == "Raspberry Pi 4 Model B");
  CHECK(name(": odd\nmodel name\t:\n") == "unknown");
  CHECK(name("") == "unknown");
}
