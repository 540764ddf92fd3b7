// SPDX-License-Identifier: Apache-2.0
// Dirichlet partition: a rank's share of each class is random, its total number of samples is
// fixed.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.hpp"
#include "core/gamma.hpp"
#include "core/random.hpp"
#include "data/partition_plan.hpp"

namespace eqt::data {
namespace {

using Samples = std::vector<std::size_t>;
using Counts = std::vector<std::vector<std::size_t>>;  // (classes, ranks of the group)

constexpr int kGroupRanks = 10;
constexpr std::uint64_t kMaxAttempts = 10000;  // each takes about 10 us for ten classes

/// The group's samples and the ranks that share them.
struct Group {
  std::vector<Samples> by_class;
  std::size_t samples = 0;  // T
  std::size_t ranks = 0;    // m
  std::uint32_t index = 0;

  double fair_share() const { return static_cast<double>(samples) / static_cast<double>(ranks); }
  std::size_t least() const {
    return static_cast<std::size_t>(0.5 * static_cast<double>(samples) /
                                    static_cast<double>(ranks));
  }
};

/// Dir(alpha 1_m) restricted to the ranks that `held` less than their fair share, 0 for the others.
/// Gamma draws are taken relative to the largest, so that a tiny alpha does not make all of them 0.
std::vector<double> draw_proportions(double alpha, const std::vector<std::size_t>& held,
                                     double fair_share, RandomSequence& draws) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<double> p(held.size(), kNone);
  for (std::size_t j = 0; j < p.size(); ++j) {
    const double logarithm = log_gamma_draw(alpha, draws);
    if (static_cast<double>(held[j]) < fair_share) p[j] = logarithm;
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& weight : p) sum += weight = std::exp(weight - largest);
  for (double& weight : p) weight /= sum;
  return p;
}

/// Cuts `count` at the cumulated proportions, truncated; the last rank gets the rest.
std::vector<std::size_t> cut(std::size_t count, const std::vector<double>& proportions) {
  std::vector<std::size_t> counts(proportions.size());
  double cumulated = 0;
  std::size_t begin = 0;
  for (std::size_t j = 0; j + 1 < counts.size(); ++j) {
    cumulated += proportions[j];
    const auto end =
        std::min(count, static_cast<std::size_t>(cumulated * static_cast<double>(count)));
    counts[j] = end - begin;
    begin = end;
  }
  counts.back() = count - begin;
  return counts;
}

/// One draw; empty if a rank got less than the allowed minimum.
std::optional<Counts> draw_counts(const Group& group, double alpha, RandomSequence& draws) {
  Counts counts;
  std::vector<std::size_t> held(group.ranks, 0);
  for (const Samples& members : group.by_class) {
    if (members.empty()) {
      counts.emplace_back(group.ranks, 0);
      continue;
    }
    // As long as a sample is left, some rank has less than its fair share.
    counts.push_back(cut(members.size(), draw_proportions(alpha, held, group.fair_share(), draws)));
    for (std::size_t j = 0; j < held.size(); ++j) held[j] += counts.back()[j];
  }
  if (*std::min_element(held.begin(), held.end()) < group.least()) return std::nullopt;
  return counts;
}

Counts settled_counts(const Group& group, double alpha, std::uint64_t seed) {
  for (std::uint64_t attempt = 1; attempt <= kMaxAttempts; ++attempt) {
    // Step 0 is the key of the permutation.
    RandomSequence draws(make_key(seed, attempt, group.index, RandomPurpose::partition));
    if (auto counts = draw_counts(group, alpha, draws)) return *counts;
  }
  const auto classes = std::count_if(group.by_class.begin(), group.by_class.end(),
                                     [](const Samples& members) { return !members.empty(); });
  fail(
      Kind::usage,
      "data.partition.alpha: expected a draw that gives each of {} ranks at least {} of {} samples "
      "of {} classes, found none in {} draws with {}; raise data.partition.alpha or "
      "data.limit_train, or start fewer ranks",
      group.ranks, group.least(), group.samples, classes, kMaxAttempts, alpha);
}

/// Appends the group's samples, ordered by rank.
void append(const Group& group, const Counts& counts, Samples& list) {
  std::vector<std::size_t> used(group.by_class.size(), 0);
  for (std::size_t j = 0; j < group.ranks; ++j) {
    for (std::size_t c = 0; c < used.size(); ++c) {
      const auto begin = group.by_class[c].begin() + static_cast<std::ptrdiff_t>(used[c]);
      list.insert(list.end(), begin, begin + static_cast<std::ptrdiff_t>(counts[c][j]));
      used[c] += counts[c][j];
    }
  }
}

/// The group of `ranks` ranks that shares order[begin, end).
Group make_group(std::span<const int> labels, int classes, std::span<const std::size_t> shuffled,
                 int ranks) {
  std::vector<int> own_labels;
  own_labels.reserve(shuffled.size());
  for (const std::size_t sample : shuffled) own_labels.push_back(labels[sample]);
  Group group;
  group.by_class = samples_by_class(own_labels, classes);
  for (Samples& members : group.by_class) {
    for (std::size_t& place : members) place = shuffled[place];
  }
  group.samples = shuffled.size();
  group.ranks = static_cast<std::size_t>(ranks);
  return group;
}

}  // namespace

PartitionPlan plan_dirichlet(std::span<const int> labels, int classes, double alpha, int ranks,
                             std::uint64_t seed) {
  EQT_CHECK(ranks >= 1 && alpha > 0, "alpha {} for {} ranks", alpha, ranks);
  const std::size_t samples = labels.size();
  const Samples order = random_permutation(make_key(seed, 0, 0, RandomPurpose::partition), samples);

  Samples list;
  list.reserve(samples);
  const auto full_group = static_cast<std::size_t>(static_cast<double>(kGroupRanks) / ranks *
                                                   static_cast<double>(samples));
  for (int first = 0; first < ranks; first += kGroupRanks) {
    const int size = std::min(kGroupRanks, ranks - first);
    const std::size_t begin = list.size();
    const std::size_t count = first + size == ranks ? samples - begin : full_group;
    Group group = make_group(labels, classes, std::span(order).subspan(begin, count), size);
    group.index = static_cast<std::uint32_t>(first / kGroupRanks);
    append(group, settled_counts(group, alpha, seed), list);
  }

  const auto shard = static_cast<std::size_t>(1.0 / ranks * static_cast<double>(samples));
  PartitionPlan plan;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(shard) * rank;
    plan.shards.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(shard));
  }
  plan.leftover_samples = samples - shard * static_cast<std::size_t>(ranks);
  return plan;
}

namespace {
constexpr std::string_view kDirichletKeys[] = {"alpha"};
}

const PartitionRow kDirichletPartition = {
    .name = "dirichlet",
    .about = "shares of each class are drawn (data.partition.alpha)",
    .plan =
        [](std::span<const int> labels, int classes, int ranks, const PartitionOptions& options) {
          return plan_dirichlet(labels, classes, options.alpha, ranks, options.seed);
        },
    .keys = kDirichletKeys,
    .by_class = true};

}  // namespace eqt::data
