// SPDX-License-Identifier: Apache-2.0
#include "comm/host_facts.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

namespace eqt::comm {
namespace {

/// Empty if the file cannot be read.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

template <typename Number>
std::optional<Number> number(const std::string& word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::string first_word(const std::string& text) {
  std::string word;
  std::istringstream(text) >> word;
  return word;
}

/// Folders of this process's control groups of a controller, and the roots of the hierarchies that
/// it sees, which in a container are the container's group. Not all of them exist.
std::vector<std::string> control_groups(const std::string& controller) {
  const std::string version2 = "/sys/fs/cgroup", version1 = version2 + "/" + controller;
  std::vector<std::string> folders = {version2 + "/", version1 + "/"};
  std::istringstream groups(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    const std::size_t names = line.find(':'), path = line.find(":/");
    if (names == std::string::npos || path == std::string::npos) continue;
    const bool is_version2 = names == path;
    std::istringstream controllers(line.substr(names + 1, is_version2 ? 0 : path - names - 1));
    bool has_it = is_version2;
    for (std::string name; std::getline(controllers, name, ',');) has_it |= name == controller;
    if (has_it)
      folders.push_back((is_version2 ? version2 : version1) + line.substr(path + 1) + "/");
  }
  return folders;
}

/// The file of a control group of version 2, or of version 1.
std::string group_text(const std::string& folder, const char* version2, const char* version1) {
  const std::string text = text_of(folder + version2);
  return text.empty() ? text_of(folder + version1) : text;
}

}  // namespace

std::vector<InterfaceCount> interface_counts() {
  // /sys/class/net shows the namespace in which /sys was mounted. /proc/self/net/dev always shows
  // that of this process.
  return parse_interface_counts(text_of("/proc/self/net/dev"));
}

std::vector<InterfaceCount> parse_interface_counts(std::string_view text) {
  constexpr std::size_t kColumns = 16, kSentColumn = 8, kSentPacketsColumn = 9;
  std::vector<InterfaceCount> counts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.rfind(':');
    if (colon == std::string::npos) continue;
    InterfaceCount count{.name = first_word(line.substr(0, colon))};
    std::istringstream columns(line.substr(colon + 1));
    std::vector<std::uint64_t> values;
    for (std::uint64_t value = 0; columns >> value;) values.push_back(value);
    if (values.size() < kColumns) continue;
    count.received_bytes = values[0];
    count.sent_bytes = values[kSentColumn];
    count.sent_packets = values[kSentPacketsColumn];
    counts.push_back(std::move(count));
  }
  return counts;
}

std::vector<InterfaceCount> carried_between(const std::vector<InterfaceCount>& before,
                                            const std::vector<InterfaceCount>& after) {
  std::vector<InterfaceCount> carried;
  for (const InterfaceCount& now : after) {
    const auto then = std::find_if(before.begin(), before.end(),
                                   [&](const auto& count) { return count.name == now.name; });
    if (then == before.end()) continue;
    // Modulo 2^64, since counters wrap around.
    carried.push_back({now.name, now.received_bytes - then->received_bytes,
                       now.sent_bytes - then->sent_bytes, now.sent_packets - then->sent_packets});
  }
  const auto total = [](const InterfaceCount& c) { return c.received_bytes + c.sent_bytes; };
  std::stable_sort(carried.begin(), carried.end(),
                   [&](const auto& a, const auto& b) { return total(a) > total(b); });
  const std::uint64_t most = carried.empty() ? 0 : total(carried.front());
  std::erase_if(carried, [&](const auto& c) { return total(c) == 0 || total(c) < most / 4; });
  return carried;
}

int interface_megabits(const std::string& name) {
  return std::max(
      0, number<int>(first_word(text_of("/sys/class/net/" + name + "/speed"))).value_or(0));
}

Memory parse_memory(std::string_view text) {
  constexpr std::uint64_t kKibi = 1024;
  std::map<std::string, std::uint64_t> kibibytes;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    if (std::uint64_t value = 0; words >> name >> value) kibibytes[name] = value;
  }
  return {kibibytes["MemTotal:"] * kKibi, kibibytes["MemAvailable:"] * kKibi};
}

std::uint64_t parse_reclaimable(std::string_view text) {
  std::map<std::string, std::uint64_t> bytes;
  std::istringstream lines{std::string(text)};
  std::string name;
  for (std::uint64_t value = 0; lines >> name >> value;) bytes[name] = value;
  // Version 1 counts the groups below under names of their own.
  const std::string all = bytes.contains("total_inactive_file") ? "total_" : "";
  return bytes[all + "inactive_file"] + bytes[all + "active_file"] + bytes["slab_reclaimable"];
}

std::string parse_processor_name(std::string_view text) {
  std::string board;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == std::string::npos) continue;
    const std::string value = line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
    if (key == "model name") return value;
    if (key == "Model") board = value;
  }
  return board.empty() ? "unknown" : board;
}

std::string processor_name() { return parse_processor_name(text_of("/proc/cpuinfo")); }

Memory memory() {
  Memory memory = parse_memory(text_of("/proc/meminfo"));
  for (const std::string& group : control_groups("memory")) {
    const auto limit =
        number<std::uint64_t>(first_word(group_text(group, "memory.max", "memory.limit_in_bytes")));
    if (!limit) continue;  // "max"
    const auto used = number<std::uint64_t>(
                          first_word(group_text(group, "memory.current", "memory.usage_in_bytes")))
                          .value_or(0);
    // Pages of files that were read count as used, and are given up when memory is wanted.
    const std::uint64_t kept =
        used - std::min(used, parse_reclaimable(text_of(group + "memory.stat")));
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::min(memory.available_bytes, *limit - std::min(*limit, kept));
  }
  return memory;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

int online_cores() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

int fair_threads(int ranks_on_this_host) {
  const int bound = static_cast<int>(allowed_cores().size());
  return std::max(1, std::min(bound, online_cores() / ranks_on_this_host));
}

double core_quota() {
  double quota = 0;
  for (const std::string& group : control_groups("cpu")) {
    std::string text = text_of(group + "cpu.max");
    if (text.empty())
      text = text_of(group + "cpu.cfs_quota_us") + " " + text_of(group + "cpu.cfs_period_us");
    std::istringstream words(text);
    double granted = 0, period = 0;  // microseconds; "max" or -1 instead of the first is no limit
    if (!(words >> granted >> period) || granted <= 0 || period <= 0) continue;
    if (quota == 0 || granted / period < quota) quota = granted / period;
  }
  return quota;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string machine_id() { return first_word(text_of("/proc/sys/kernel/random/boot_id")); }

namespace {

constexpr char kGone = '-';

/// The fields of a text of /proc/PID/stat from the third on, the state; empty of another text.
std::string_view fields_after_name(std::string_view text) {
  const std::size_t name_ends = text.rfind(") ");  // a name may contain any character
  return name_ends == std::string_view::npos ? "" : text.substr(name_ends + 2);
}

/// The state as in proc(5): R running, S asleep, D asleep and not interruptible, T stopped, Z ended
/// but not yet waited for.
char state_in(const std::string& folder) {
  const std::string text = text_of(folder + "/stat");
  const std::string_view fields = fields_after_name(text);
  return fields.empty() ? kGone : fields.front();
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

std::optional<std::uint64_t> parse_start_ticks(std::string_view text) {
  std::istringstream fields{std::string(fields_after_name(text))};
  constexpr int kBetween = 19;  // from field 3, the state, to field 22, the start
  std::string other;
  for (int i = 0; i < kBetween; ++i) fields >> other;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return {};
  return ticks;
}

std::optional<double> age_of_process(pid_t process) {
  const auto ticks = parse_start_ticks(text_of(fmt::format("/proc/{}/stat", process)));
  const long ticks_per_second = sysconf(_SC_CLK_TCK);
  timespec now{};
  if (!ticks || ticks_per_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return {};
  const double age = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
                     static_cast<double>(*ticks) / static_cast<double>(ticks_per_second);
  // Systems that emulate Linux may count from another moment.
  if (age < 0) return {};
  return age;
}

std::optional<double> age_of_mpirun() {
  // Its names in Open MPI 4.1 and 5.0; a daemon may have been there long before the job.
  constexpr std::array<std::string_view, 4> kNames = {"mpirun", "mpiexec", "orterun", "prterun"};
  const pid_t parent = getppid();
  const std::string name = first_word(text_of(fmt::format("/proc/{}/comm", parent)));
  if (std::ranges::find(kNames, name) == kNames.end()) return {};
  return age_of_process(parent);
}

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
