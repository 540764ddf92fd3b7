// SPDX-License-Identifier: Apache-2.0
// The rules of `doctor` about links between hosts: pure functions over facts.

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "doctor/rules.hpp"

namespace eqt::doctor {
namespace {

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

}  // namespace

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

}  // namespace eqt::doctor
