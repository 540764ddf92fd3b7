#include "comm/local_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace eqt::comm {
namespace {

constexpr char kGone = '-';

/// As proc(5) has it: R running, S asleep, T stopped, Z ended but not fetched yet.
char state_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return kGone;
  const std::size_t name_ends = line.rfind(") ");  // a name may hold anything
  return name_ends == std::string::npos || name_ends + 2 >= line.size() ? kGone
                                                                        : line[name_ends + 2];
}

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

}  // namespace eqt::comm
