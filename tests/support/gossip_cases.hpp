// SPDX-License-Identifier: Apache-2.0
// The algorithms, compressors and topologies that gossip is tested with.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codec/catalogue.hpp"
#include "pipeline/plan.hpp"
#include "support/compressors.hpp"
#include "support/gaussian.hpp"
#include "support/gossip_oracle.hpp"
#include "support/layouts.hpp"
#include "support/topologies.hpp"
#include "topology/spectrum.hpp"

namespace eqt::test {

inline std::vector<GossipScheme> all_schemes() {
  using enum Mixing;
  using enum Rule;
  return {
      {.name = "d-psgd", .momentum = 0.9, .weight_decay = 0.01},
      {.name = "d-psgd, combine first",
       .combine_first = true,
       .momentum = 0.9,
       .nesterov = true,
       .weight_decay = 0.01},
      {.name = "sgp", .push_sum = true, .momentum = 0.9, .nesterov = true},
      {.name = "sgp, combine first", .push_sum = true, .combine_first = true, .momentum = 0.9},
      {.name = "choco-sgd", .mixing = choco, .momentum = 0.9, .weight_decay = 0.01},
      {.name = "choco-sgd, combine first", .mixing = choco, .combine_first = true},
      {.name = "quant-sgp", .mixing = choco, .push_sum = true, .momentum = 0.9, .nesterov = true},
      {.name = "deep-squeeze", .mixing = squeeze, .momentum = 0.9, .nesterov = true},
      {.name = "sparse-push", .mixing = squeeze, .push_sum = true, .weight_decay = 0.01},
      {.name = "d2", .rule = d2, .weight_decay = 0.01},
      {.name = "gradient-tracking", .rule = gradient_tracking, .weight_decay = 0.01},
      {.name = "quasi-global", .rule = quasi_global, .momentum = 0.9, .weight_decay = 0.01},
      {.name = "quasi-global, nesterov", .rule = quasi_global, .momentum = 0.9, .nesterov = true},
      {.name = "quasi-global over choco", .mixing = choco, .rule = quasi_global, .momentum = 0.9},
      {.name = "quasi-global over sgp",
       .push_sum = true,
       .rule = quasi_global,
       .momentum = 0.9,
       .nesterov = true},
      {.name = "d-psgd, groups", .momentum = 0.9, .groups = true},
      {.name = "d2, groups", .rule = d2, .groups = true},
      {.name = "gradient-tracking, groups", .rule = gradient_tracking, .groups = true},
      {.name = "quasi-global, groups",
       .mixing = choco,
       .rule = quasi_global,
       .momentum = 0.9,
       .nesterov = true,
       .groups = true},
  };
}

inline GossipScheme scheme_named(const std::string& name) {
  for (const GossipScheme& scheme : all_schemes())
    if (scheme.name == name) return scheme;
  fail(Kind::bug, "no scheme {}", name);
}

using NamedCompressor = std::pair<std::string, std::unique_ptr<codec::Compressor>>;

/// All of them with default options, except for densities for small tensors.
inline std::vector<NamedCompressor> all_compressors() {
  std::vector<NamedCompressor> all;
  for (const Entry<codec::CompressorRow> row : codec::CompressorRow::all())
    all.emplace_back(row->name, made_by_default(*row, {.density = 0.1}));
  return all;
}

/// r -> r + 1, and 0 -> 2: out-degrees differ, so rows do not sum to 1.
inline std::unique_ptr<topology::Topology> ring_with_chord(int ranks) {
  topology::Graph graph{.ranks = ranks, .directed = true};
  for (int r = 0; r < ranks; ++r) graph.edges.push_back({r, (r + 1) % ranks});
  graph.edges.push_back({0, 2 % ranks});
  return topology::make_topology(
      {.kind = topology::GraphKind::graph, .weights = topology::Weights::uniform, .graph = graph},
      ranks);
}

struct NamedTopology {
  std::string name;
  std::unique_ptr<topology::Topology> made;
  bool doubly_stochastic = true;  // false: for push-sum only
};

/// All named ones that exist for this many ranks, then some that need push-sum.
inline std::vector<NamedTopology> all_topologies(int ranks) {
  std::vector<NamedTopology> all;
  for (const topology::Options& options : named_options()) {
    if (!exists(options, ranks)) continue;
    auto made = topology::make_topology(options, ranks);
    std::string name(made->name());
    all.push_back({std::move(name), std::move(made), true});
  }
  if (ranks < 3) return all;
  all.push_back({"directed ring with a chord", ring_with_chord(ranks), false});
  all.push_back({"star, uniform weights",
                 make(topology::GraphKind::star, ranks, false, topology::Weights::uniform), false});
  return all;
}

/// True if the algorithm can use the topology.
inline bool fits(const GossipScheme& scheme, const NamedTopology& topology) {
  if (!topology.doubly_stochastic && !scheme.push_sum) return false;
  if (scheme.mixing == Mixing::choco) return topology.made->is_static();
  if (scheme.rule != Rule::d2) return true;
  const topology::MixingMatrix& first = topology.made->at(0);
  return topology.made->is_static() && first.is_symmetric() &&
         topology::smallest_eigenvalue(first) > -1.0 / 3;
}

/// Two matrices and a vector that is always sent raw.
inline Layout gossip_layout() { return layout_of({{16, 20}, {30}, {25, 10}}); }
inline constexpr std::size_t kGossipSkip = 64;
/// A bucket for each tensor.
inline pipeline::PlanOptions gossip_plan() {
  return {.skip_below = kGossipSkip, .bucket_bytes = 1};
}

/// f_i(x) = sum_k h_k (x_k - a_ik)^2 / 2.
struct Quadratic {
  std::vector<float> curvature, optimum;
};
inline Quadratic quadratic_of(std::size_t count, std::size_t node) {
  Quadratic f{
      .curvature = {},
      .optimum = gaussian(count, {.run_seed = 21, .rank = static_cast<std::uint32_t>(node)})};
  for (std::size_t k = 0; k < count; ++k) {
    f.curvature.push_back(0.5f + static_cast<float>(k % 7) / 8);
  }
  return f;
}
inline std::vector<double> gradient_at(const Quadratic& f, const std::vector<double>& x) {
  std::vector<double> g(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    g[k] = static_cast<double>(f.curvature[k]) * (x[k] - static_cast<double>(f.optimum[k]));
  }
  return g;
}
inline void gradient_at(const Quadratic& f, std::span<const float> x, std::span<float> g) {
  for (std::size_t k = 0; k < x.size(); ++k) g[k] = f.curvature[k] * (x[k] - f.optimum[k]);
}

}  // namespace eqt::test
