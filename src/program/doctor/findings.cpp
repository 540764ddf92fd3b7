// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace eqt::doctor {

std::vector<HostRanks> hosts_of(const DoctorFacts& facts) {
  std::map<Rank, std::vector<Rank>> by_first;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    by_first[facts.ranks[r].first_on_host].push_back(static_cast<Rank>(r));
  }
  std::vector<HostRanks> hosts;
  std::map<std::string, int> seen;
  for (auto& [first, ranks] : by_first) {
    const std::string& name = facts.ranks[static_cast<std::size_t>(first)].host;
    const int count = ++seen[name];
    hosts.push_back({count == 1 ? name : fmt::format("{}#{}", name, count), std::move(ranks)});
  }
  return hosts;
}

std::string interface_between(const DoctorFacts& facts, Rank from, Rank to) {
  const auto& link_interfaces = facts.ranks[static_cast<std::size_t>(from)].link_interfaces;
  const auto found = std::find_if(link_interfaces.begin(), link_interfaces.end(),
                                  [&](const LinkInterfaces& link) { return link.peer == to; });
  if (found == link_interfaces.end()) return "";
  std::vector<std::string> names;
  for (const auto& interface : found->interfaces) names.push_back(interface.name);
  return fmt::format("{}", fmt::join(names, "+"));
}

}  // namespace eqt::doctor
