// SPDX-License-Identifier: Apache-2.0
#include "comm/local_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace eqt::comm {
namespace {

constexpr char kGone = '-';

/// The state as in proc(5): R running, S asleep, D asleep and not interruptible, T stopped, Z ended
/// but not yet waited for.
char state_in(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  if (!std::getline(file, line)) return kGone;
  const std::size_t name_ends = line.rfind(") ");  // a name may contain any character
  return name_ends == std::string::npos || name_ends + 2 >= line.size() ? kGone
                                                                        : line[name_ends + 2];
}

char state_of(pid_t process) { return state_in(fmt::format("/proc/{}", process)); }

const char* trouble_of(char state) {
  switch (state) {
    case 'T':
    case 't':
      return "is stopped (SIGSTOP or a debugger)";
    case kGone:
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<LocalPeer> visible_peers(std::span<const std::uint64_t> processes,
                                     std::span<const Rank> ranks_on_this_host, Rank own) {
  std::vector<LocalPeer> peers;
  for (const Rank rank : ranks_on_this_host) {
    const auto process = static_cast<pid_t>(processes[static_cast<std::size_t>(rank)]);
    if (rank != own && state_of(process) != kGone) peers.push_back({rank, process});
  }
  return peers;
}

std::string describe_troubled(std::span<const LocalPeer> peers) {
  std::string text;
  for (const LocalPeer& peer : peers) {
    const char* const trouble = trouble_of(state_of(peer.process));
    if (trouble == nullptr) continue;
    text += fmt::format("{}rank {} {}", text.empty() ? "" : ", ", peer.rank, trouble);
  }
  return text;
}

bool has_unkillable_thread() {
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none))
    if (state_in(thread.path().string()) == 'D') return true;
  return false;
}

}  // namespace eqt::comm
