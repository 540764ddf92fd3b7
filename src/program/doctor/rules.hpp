// SPDX-License-Identifier: Apache-2.0
// What the rules of `doctor` have in common. Private to the room.

#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "doctor/findings.hpp"

namespace eqt::doctor {

using Warnings = std::vector<Warning>;

/// Rules about links between hosts and the interfaces that they pass.
void warn_of_links(const DoctorFacts& facts, Warnings& warnings);
void warn_of_interfaces(const DoctorFacts& facts, Warnings& warnings);

inline const RankFacts& rank_facts(const DoctorFacts& facts, Rank rank) {
  return facts.ranks[static_cast<std::size_t>(rank)];
}

inline std::string joined(const std::set<std::string>& words) {
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
inline std::string host_names(const DoctorFacts& facts, const std::vector<Rank>& ranks) {
  std::set<std::string> names;
  for (const Rank rank : ranks) names.insert(rank_facts(facts, rank).host);
  return joined(names);
}

}  // namespace eqt::doctor
