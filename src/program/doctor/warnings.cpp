// SPDX-License-Identifier: Apache-2.0
// The rules of `doctor` about hosts, cores, libraries and links between hosts: pure functions over
// facts, each with the figures that made it speak.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "doctor/findings.hpp"

namespace eqt::doctor {
namespace {

using Warnings = std::vector<Warning>;

const RankFacts& rank_facts(const DoctorFacts& facts, Rank rank) {
  return facts.ranks[static_cast<std::size_t>(rank)];
}

std::string joined(const std::set<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Ranks by the value that `key` takes on them.
template <typename Key>
auto grouped(const DoctorFacts& facts, Key&& key) {
  std::map<std::decay_t<decltype(key(facts.ranks[0]))>, std::vector<Rank>> groups;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    groups[key(facts.ranks[r])].push_back(static_cast<Rank>(r));
  }
  return groups;
}

/// Names of the hosts on which one of `ranks` runs.
std::string host_names(const DoctorFacts& facts, const std::vector<Rank>& ranks) {
  std::set<std::string> names;
  for (const Rank rank : ranks) names.insert(rank_facts(facts, rank).host);
  return joined(names);
}

constexpr std::uint64_t kMinMemoryPerRank = std::uint64_t{1} << 30;  // ResNet-50, batch 16

/// Hosts that are parts of one machine share its cores, so rules about cores and memory are by
/// machine. If a machine does not identify itself, each host counts as one.
std::string machine_of(const RankFacts& rank) {
  return rank.machine.empty() ? fmt::format("host of rank {}", rank.first_on_host) : rank.machine;
}

/// Each rank needs one core, spread evenly over the cores that it may use; a core with more than
/// one rank is shared.
double largest_load(const DoctorFacts& facts, const std::vector<Rank>& ranks) {
  std::map<int, double> load;
  double most = 0;
  for (const Rank rank : ranks) {
    const auto& cores = rank_facts(facts, rank).cores;
    for (const int core : cores) {
      most = std::max(most, load[core] += 1.0 / static_cast<double>(cores.size()));
    }
  }
  return most;
}

void warn_of_shared_cores(const DoctorFacts& facts, Warnings& warnings) {
  for (const auto& [machine, ranks] : grouped(facts, machine_of)) {
    std::set<int> cores;
    int threads = 0;
    std::map<int, double> quotas;  // of containers, which are hosts of their own; 0: none
    for (const Rank rank : ranks) {
      const RankFacts& found = rank_facts(facts, rank);
      cores.insert(found.cores.begin(), found.cores.end());
      threads += found.threads;
      quotas[found.first_on_host] = found.core_quota;
    }
    if (cores.empty()) continue;
    const std::string names = host_names(facts, ranks);
    auto usable = static_cast<double>(cores.size());
    if (std::ranges::all_of(quotas, [](const auto& host) { return host.second > 0; })) {
      double sum = 0;
      for (const auto& [host, quota] : quotas) sum += quota;
      usable = std::min(usable, sum);
    }
    const int machine_cores = rank_facts(facts, ranks.front()).host_cores;
    if (static_cast<double>(ranks.size()) > usable) {
      warnings.push_back(
          {"oversubscribed",
           fmt::format(
               "{} ranks share {:g} cores of {}: they take turns, and a step takes as long as "
               "all of them together; start at most {} ranks there{}",
               ranks.size(), usable, names, std::max(1, static_cast<int>(usable)),
               static_cast<int>(cores.size()) < machine_cores
                   ? fmt::format(", or let them use all {} cores with mpirun --bind-to none",
                                 machine_cores)
                   : "")});
    } else if (largest_load(facts, ranks) > 1 + 1e-9) {
      warnings.push_back(
          {"bound-to-same-cores",
           fmt::format("ranks of {} are bound to the same cores while others are free; "
                       "start with mpirun --bind-to none",
                       names)});
    } else if (threads > static_cast<int>(usable)) {
      warnings.push_back(
          {"too-many-threads",
           fmt::format("{} ranks of {} would compute with {} threads on {:g} cores; set "
                       "threads_per_rank to {}",
                       ranks.size(), names, threads, usable,
                       std::max(1, static_cast<int>(usable) / static_cast<int>(ranks.size())))});
    }
  }
}

void warn_of_tight_binding(const DoctorFacts& facts, Warnings& warnings) {
  for (const auto& [machine, ranks] : grouped(facts, machine_of)) {
    for (const Rank rank : ranks) {
      const RankFacts& found = rank_facts(facts, rank);
      const int share = found.host_cores / static_cast<int>(ranks.size());
      const int bound = static_cast<int>(found.cores.size());
      if (bound >= std::max(share, found.threads)) continue;
      warnings.push_back(
          {"bound-too-tightly",
           fmt::format(
               "rank {} on {} may use {} of {} cores but {}; start with mpirun --bind-to none, "
               "or --map-by slot:PE={}",
               rank, found.host, bound, found.host_cores,
               found.threads > bound ? fmt::format("would compute with {} threads", found.threads)
                                     : fmt::format("its share is {}, the others stay idle", share),
               std::max(share, 1))});
      break;  // one rank of a machine says it for all
    }
  }
}

void warn_of_libraries(const DoctorFacts& facts, Warnings& warnings) {
  const auto by_vendor = grouped(facts, [](const RankFacts& r) { return r.blas_vendor; });
  if (const auto found = by_vendor.find("reference"); found != by_vendor.end()) {
    const RankFacts& first = rank_facts(facts, found->second.front());
    warnings.push_back(
        {"reference-blas",
         fmt::format(
             "matrix products on {} come from the reference BLAS ({}) at {:.1f} GFLOP/s, often "
             "ten times below an optimised one; install libopenblas0-pthread, or choose it "
             "with update-alternatives --config libblas.so.3-$(uname -m)-linux-gnu",
             host_names(facts, found->second), first.blas_library, first.matmul_flops * 1e-9)});
  }
  for (const auto& [level, ranks] :
       grouped(facts, [](const RankFacts& r) { return r.thread_level; })) {
    if (level == "serialized" || level == "multiple") continue;
    warnings.push_back(
        {"mpi-threads",
         fmt::format("MPI on {} gives thread level {}: communication cannot overlap the "
                     "backward pass; use an MPI built with thread support "
                     "(ompi_info | grep Thread)",
                     host_names(facts, ranks), level)});
  }
}

void warn_of_mixture(const DoctorFacts& facts, Warnings& warnings, const std::string& id,
                     const std::string& what, const std::string& advice,
                     std::string RankFacts::*member) {
  const auto groups = grouped(facts, [&](const RankFacts& rank) { return rank.*member; });
  if (groups.size() < 2) return;
  std::vector<std::string> found;
  for (const auto& [value, ranks] : groups) {
    found.push_back(
        fmt::format("{} (rank {}{})", value, ranks.front(), ranks.size() > 1 ? ", ..." : ""));
  }
  warnings.push_back(
      {id, fmt::format("ranks differ in {}: {}; {}", what, fmt::join(found, ", "), advice)});
}

void warn_of_mixtures(const DoctorFacts& facts, Warnings& warnings) {
  warn_of_mixture(facts, warnings, "mixed-versions", "equant-train's version",
                  "copy one build to all hosts: messages of two versions may not be understood",
                  &RankFacts::version);
  warn_of_mixture(facts, warnings, "mixed-mpi", "the MPI library", "install one version everywhere",
                  &RankFacts::mpi);
  warn_of_mixture(facts, warnings, "mixed-libtorch", "LibTorch's version",
                  "gradients are rounded otherwise, and nothing else depends on it; training "
                  "refuses ranks with LibTorch beside ranks without",
                  &RankFacts::torch);
  warn_of_mixture(facts, warnings, "mixed-simd", "SIMD target",
                  "results are the same, but every step waits for the slowest processor",
                  &RankFacts::simd);
}

void warn_of_memory(const DoctorFacts& facts, Warnings& warnings) {
  for (const auto& [machine, ranks] : grouped(facts, machine_of)) {
    const std::uint64_t available = rank_facts(facts, ranks.front()).available_bytes;
    if (available >= kMinMemoryPerRank * ranks.size()) continue;
    warnings.push_back(
        {"little-memory",
         fmt::format("{:.2f} GiB are available to {} ranks on {}, less than 1 GiB each; end other "
                     "programs, start fewer ranks there or take a smaller train.batch_size",
                     static_cast<double>(available) / (1 << 30), ranks.size(),
                     host_names(facts, ranks))});
  }
}

void warn_of_single_copy(const DoctorFacts& facts, Warnings& warnings) {
  const bool shares = std::any_of(facts.links.begin(), facts.links.end(),
                                  [](const comm::Link& link) { return link.same_host; });
  if (!shares) return;
  for (const RankFacts& rank : facts.ranks) {
    if (rank.single_copy != "none") continue;
    warnings.push_back(
        {"two-copies",
         fmt::format("ranks of {} pass messages through shared memory in two copies "
                     "(btl_vader_single_copy_mechanism is none); where the system permits it "
                     "(containers: --cap-add SYS_PTRACE), let Open MPI use cma",
                     rank.host)});
    return;
  }
}

void warn_of_shared_machine(const DoctorFacts& facts, Warnings& warnings) {
  for (const auto& [machine, ranks] : grouped(facts, machine_of)) {
    std::set<Rank> hosts;
    for (const Rank rank : ranks) hosts.insert(rank_facts(facts, rank).first_on_host);
    if (hosts.size() < 2) continue;
    warnings.push_back(
        {"one-machine",
         fmt::format("{} hosts (first ranks {}) are parts of one machine: links between "
                     "them are real to MPI, cores and memory are counted once",
                     hosts.size(), fmt::join(hosts, ", "))});
  }
}

// A full-duplex link moves twice as much both ways as one way; TCP's answers take a few percent.
constexpr double kMinDuplexGain = 1.3;
constexpr double kSlowShare = 0.5;     // of the median link
constexpr double kUnevenFactor = 2.0;  // between the directions of a link
constexpr int kSlowInterface = 1000;   // [Mb/s]

std::string pair_name(const DoctorFacts& facts, Rank from, Rank to) {
  return fmt::format("{} (rank {}) to {} (rank {})", rank_facts(facts, from).host, from,
                     rank_facts(facts, to).host, to);
}

double megabits(double bytes_per_second) { return bytes_per_second * 8e-6; }

void warn_of_half_duplex(const DoctorFacts& facts, const comm::Link& link, Warnings& warnings) {
  const double both = link.forward.duplex_bytes_per_second + link.backward.duplex_bytes_per_second;
  const double one = std::max(link.forward.bytes_per_second, link.backward.bytes_per_second);
  // Directions of unlike speed cannot double.
  const double least = std::min(link.forward.bytes_per_second, link.backward.bytes_per_second);
  if (both >= one + (kMinDuplexGain - 1) * least) return;
  warnings.push_back(
      {"half-duplex",
       fmt::format(
           "{} moves {:.1f} Mb/s both ways together and {:.1f} one way: the directions share "
           "the link (Wi-Fi, a half-duplex port) or a busy core; use a cable, check both "
           "ports with ethtool, leave a core free",
           pair_name(facts, link.first, link.second), megabits(both), megabits(one))});
}

/// The median rate of the directions of all other links between hosts; none if there is no other.
std::optional<double> median_of_others(const DoctorFacts& facts, const comm::Link& link) {
  std::vector<double> speeds;
  for (const comm::Link& other : facts.links)
    if (!other.same_host && &other != &link)
      speeds.insert(speeds.end(),
                    {other.forward.bytes_per_second, other.backward.bytes_per_second});
  if (speeds.empty()) return {};
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

bool is_loopback(const std::string& name) { return name == "lo"; }

bool is_container_bridge(const std::string& name) {
  constexpr std::array kPrefixes = {"docker", "br-", "virbr", "cni", "flannel", "podman"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

/// Rules about links between hosts and the interfaces that they pass.
void warn_of_links(const DoctorFacts& facts, Warnings& warnings) {
  for (const comm::Link& link : facts.links) {
    if (link.same_host) continue;
    warn_of_half_duplex(facts, link, warnings);
    const bool forward_slower = link.forward.bytes_per_second < link.backward.bytes_per_second;
    const auto [slow, fast] =
        std::minmax(link.forward.bytes_per_second, link.backward.bytes_per_second);
    const std::string name = forward_slower ? pair_name(facts, link.first, link.second)
                                            : pair_name(facts, link.second, link.first);
    const std::optional<double> median = median_of_others(facts, link);
    if (median && slow < kSlowShare * *median) {
      warnings.push_back(
          {"slow-link",
           fmt::format("{} moves {:.1f} Mb/s where the median link moves {:.1f}; the whole "
                       "job waits for it: check cable, port speed and other traffic",
                       name, megabits(slow), megabits(*median))});
    } else if (fast > kUnevenFactor * slow) {
      warnings.push_back(
          {"uneven-link",
           fmt::format("{} moves {:.1f} Mb/s and the way back {:.1f}; check for a shaper, "
                       "a bad cable pair or traffic of others",
                       name, megabits(slow), megabits(fast))});
    }
  }
}

void warn_of_interfaces(const DoctorFacts& facts, Warnings& warnings) {
  std::set<std::string> told;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    const RankFacts& rank = facts.ranks[r];
    for (const LinkInterfaces& link : rank.link_interfaces) {
      if (link.interfaces.empty() ||
          rank.first_on_host == rank_facts(facts, link.peer).first_on_host) {
        continue;
      }
      const std::string& name = link.interfaces.front().name;
      if (!told.insert(fmt::format("{} {}", rank.first_on_host, name)).second) continue;
      if (is_loopback(name) || is_container_bridge(name)) {
        warnings.push_back(
            {"wrong-interface",
             fmt::format(
                 "messages from {} to {} pass {}, {}; name the network that the hosts share: "
                 "mpirun --mca btl_tcp_if_include 192.0.2.0/24 (its own numbers)",
                 rank.host, rank_facts(facts, link.peer).host, name,
                 is_loopback(name) ? "the loopback interface" : "a bridge of containers")});
      } else if (link.megabits > 0 && link.megabits < kSlowInterface) {
        warnings.push_back(
            {"slow-interface",
             fmt::format(
                 "{} of {} runs at {} Mb/s; if adapter and switch can do more, change the cable "
                 "(four pairs) or the port, otherwise compress gradients",
                 name, rank.host, link.megabits)});
      }
    }
  }
}

}  // namespace

std::vector<Warning> diagnose(const DoctorFacts& facts) {
  Warnings warnings;
  warn_of_libraries(facts, warnings);
  warn_of_shared_cores(facts, warnings);
  warn_of_tight_binding(facts, warnings);
  warn_of_interfaces(facts, warnings);
  warn_of_links(facts, warnings);
  warn_of_mixtures(facts, warnings);
  warn_of_memory(facts, warnings);
  warn_of_single_copy(facts, warnings);
  warn_of_shared_machine(facts, warnings);
  return warnings;
}

}  // namespace eqt::doctor
