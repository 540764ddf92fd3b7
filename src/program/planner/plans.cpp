// SPDX-License-Identifier: Apache-2.0
#include "planner/plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace eqt::planner {

const forecast::BoardUse& slowest_boards(const PlannedRun& run) {
  return *std::ranges::min_element(run.forecast.boards, {}, &forecast::BoardUse::waiting);
}

std::string ties_of(const Plans& plans) {
  const double best = seconds_a_sample(plans.whole[plans.best]);
  std::string names;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    if (s == plans.best || seconds_a_sample(plans.whole[s]) > (1 + kTie) * best) continue;
    names += (names.empty() ? "" : ", ") + plans.whole[s].scheme;
  }
  return names;
}

std::string pays_sentence(const Plans& plans) {
  const double* most = nullptr;
  std::size_t scheme = 0;
  for (std::size_t s = 0; s < plans.break_even.size(); ++s) {
    const double& rate = plans.break_even[s];
    if (!plans.compresses.at(s) || std::isnan(rate) || (most != nullptr && rate <= *most)) continue;
    most = &rate;
    scheme = s;
  }
  if (most == nullptr) return "";
  if (*most == 0) return "Compression pays on no link here: float32 is as fast on the slowest.";
  const std::string& name = plans.whole[scheme].scheme;
  if (std::isinf(*most))
    return fmt::format("Compression pays on links of every rate here ({}).", name);
  return fmt::format("Compression pays below {:.3g} Mb/s of the slowest link ({}).", *most, name);
}

std::optional<int> crossover(const std::vector<PlannedRun>& by_ranks) {
  const auto fastest = std::ranges::min_element(
      by_ranks, {}, [](const PlannedRun& run) { return seconds_a_sample(run); });
  const int most = std::ranges::max_element(by_ranks, {}, &PlannedRun::ranks)->ranks;
  if (fastest->ranks == most) return {};
  return fastest->ranks;
}

void mark_fronts(Plans& plans, const ClusterFile& file) {
  const bool prices =
      std::ranges::all_of(file.facts, [](const BoardFacts& facts) { return facts.price > 0; });
  const bool watts =
      std::ranges::all_of(file.facts, [](const BoardFacts& facts) { return facts.busy_watts > 0; });
  if (!prices && !watts) return;
  std::vector<PlannedRun*> all;
  for (auto& runs : plans.by_ranks)
    for (PlannedRun& run : runs) all.push_back(&run);
  std::vector<std::optional<Tradeoff>> by_price(all.size()), by_joules(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PlannedRun& run = *all[i];
    if (!run.too_small.empty()) continue;
    const double seconds = seconds_a_sample(run);
    if (prices) by_price[i] = {.seconds = seconds, .cost = run.price};
    if (watts) by_joules[i] = {.seconds = seconds, .cost = run.joules / run.samples};
  }
  const std::vector<bool> price = pareto_front(by_price), joules = pareto_front(by_joules);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i]->pareto = {.price = price[i], .joules = joules[i]};
}

std::vector<bool> pareto_front(std::span<const std::optional<Tradeoff>> all) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i]) order.push_back(i);
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(all[i]->cost, all[i]->seconds, i); });
  std::vector<bool> front(all.size());
  double fastest = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    front[i] = all[i]->seconds < fastest;
    fastest = std::min(fastest, all[i]->seconds);
  }
  return front;
}

}  // namespace eqt::planner
