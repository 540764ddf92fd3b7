// SPDX-License-Identifier: Apache-2.0
#include "topology/weights.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.hpp"

namespace eqt::topology {
namespace {

using Edge = std::pair<Rank, Rank>;  // from, to
using Counts = std::map<Edge, int>;

Counts counted(const Links& links) {
  Counts counts;
  for (const Link& link : links) ++counts[{link.from, link.to}];
  return counts;
}

double& at(std::vector<double>& by_rank, Rank rank) {
  return by_rank[static_cast<std::size_t>(rank)];
}

/// Adds what each rank keeps: the rest of its column. Rounding may make it slightly negative.
void add_rests(int ranks, std::vector<Entry>& entries) {
  std::vector<double> given(static_cast<std::size_t>(ranks), 0.0);
  for (const Entry& entry : entries) at(given, entry.from) += entry.weight;
  for (Rank rank = 0; rank < ranks; ++rank)
    entries.push_back({rank, rank, std::max(0.0, 1 - at(given, rank))});
}

}  // namespace

MixingMatrix uniform_weights(int ranks, const Links& links) {
  std::vector<double> degree(static_cast<std::size_t>(ranks), 0.0);
  for (const Link& link : links) ++at(degree, link.from);
  std::vector<Entry> entries;
  for (const auto& [edge, count] : counted(links))
    entries.push_back({edge.first, edge.second, count / (at(degree, edge.first) + 1)});
  for (Rank rank = 0; rank < ranks; ++rank)
    entries.push_back({rank, rank, 1 / (at(degree, rank) + 1)});
  return {ranks, std::move(entries)};
}

MixingMatrix metropolis_weights(int ranks, const Links& links) {
  const Counts edges = counted(links);
  std::vector<double> degree(static_cast<std::size_t>(ranks), 0.0);
  for (const auto& [edge, count] : edges) ++at(degree, edge.first);
  std::vector<Entry> entries;
  for (const auto& [edge, count] : edges) {
    const auto [from, to] = edge;
    entries.push_back({from, to, 1 / (1 + std::max(at(degree, from), at(degree, to)))});
  }
  add_rests(ranks, entries);
  return {ranks, std::move(entries)};
}

MixingMatrix given_weights(const Graph& graph) {
  std::vector<Entry> entries;
  for (const GraphEdge& edge : graph.edges) {
    entries.push_back({edge.from, edge.to, edge.weight});
    if (!graph.directed) entries.push_back({edge.to, edge.from, edge.weight});
  }
  std::vector<double> given(static_cast<std::size_t>(graph.ranks), 0.0);
  for (const Entry& entry : entries) at(given, entry.from) += entry.weight;
  for (Rank rank = 0; rank < graph.ranks; ++rank)
    if (at(given, rank) > 1 + kSumTolerance)
      fail(Kind::usage,
           "topology graph: expected weights of at most 1 in sum on the edges that leave a rank, "
           "found {} for rank {}; divide them by at least that, or leave all weights out",
           at(given, rank), rank);
  add_rests(graph.ranks, entries);
  return {graph.ranks, std::move(entries)};
}

}  // namespace eqt::topology
