// SPDX-License-Identifier: Apache-2.0
#include "planner/rate_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "report/read_run.hpp"

namespace eqt::planner {
namespace {

constexpr double kRateFactor = 2;

double loss_of(const TriedRate& one) {
  return one.loss.value_or(std::numeric_limits<double>::infinity());
}

/// @return null: none has a loss
const TriedRate* best_of(std::span<const TriedRate> tried) {
  const auto best = std::ranges::min_element(tried, {}, loss_of);
  return best == tried.end() || !best->loss ? nullptr : &*best;
}

const TriedRate* find(std::span<const TriedRate> tried, double rate) {
  const auto found = std::ranges::find(tried, rate, &TriedRate::rate);
  return found == tried.end() ? nullptr : &*found;
}

}  // namespace

std::optional<double> next_rate(std::span<const TriedRate> tried, double own, std::uint64_t most) {
  if (tried.size() >= most) return {};
  if (tried.empty()) return own;
  const TriedRate* const best = best_of(tried);
  if (best == nullptr)
    return std::ranges::min_element(tried, {}, &TriedRate::rate)->rate / kRateFactor;
  // A power of two keeps the digits of the rate.
  for (const double next : {best->rate * kRateFactor, best->rate / kRateFactor})
    if (find(tried, next) == nullptr) return next;
  return {};
}

double best_rate(std::span<const TriedRate> tried) {
  const TriedRate* const best = best_of(tried);
  if (best == nullptr)
    fail(Kind::diverged,
         "train.tune: expected a learning rate with which the network trains, found that all {} "
         "from {:.4g} down to {:.4g} diverge; try a much smaller optimizer.learning_rate",
         tried.size(), std::ranges::max_element(tried, {}, &TriedRate::rate)->rate,
         std::ranges::min_element(tried, {}, &TriedRate::rate)->rate);
  const TriedRate* const lower = find(tried, best->rate / kRateFactor);
  const TriedRate* const upper = find(tried, best->rate * kRateFactor);
  if (lower == nullptr || upper == nullptr || !lower->loss || !upper->loss) return best->rate;
  const double curvature = *lower->loss - 2 * *best->loss + *upper->loss;
  if (!(curvature > 0)) return best->rate;  // three equal losses
  // The best one is the least of three, so that the vertex is at most half a step away.
  const double steps = (*lower->loss - *upper->loss) / (2 * curvature);
  return std::stod(fmt::format("{:.3g}", best->rate * std::pow(kRateFactor, steps)));
}

std::optional<double> final_loss(const std::string& folder, std::uint64_t& steps) {
  const report::Run run = report::read_run(folder);
  if (run.epochs.empty())
    fail(Kind::data, "{}: expected a run with an evaluation at its end, found none; make it again",
         folder);
  steps = run.epochs.back().step;
  return run.epochs.back().test_loss;
}

std::string sentence_of(const RateSearch& search) {
  std::string tried;
  for (const TriedRate& one : search.tried) {
    const bool last = &one == &search.tried.back();
    tried += fmt::format(
        "{}{:.4g} ({})",
        tried.empty() ? ""
        : last        ? " and "
                      : ", ",
        one.rate,
        one.loss ? fmt::format("{}{:.4g}", tried.empty() ? "loss " : "", *one.loss) : "diverged");
  }
  const TriedRate& best = *best_of(search.tried);
  const bool open = find(search.tried, best.rate * kRateFactor) == nullptr ||
                    find(search.tried, best.rate / kRateFactor) == nullptr;
  std::string text = fmt::format(
      "Learning rates tried for {} steps each: {}; {:.4g} is the best of such short runs{}",
      search.steps, tried, search.short_rate,
      open ? ", though the search has ended beside it (a larger train.tune_rates goes "
             "on)"
           : "");
  if (search.rate != search.short_rate)
    text += fmt::format(", and {:.4g} counts as that of the whole run", search.rate);
  return text + ".";
}

}  // namespace eqt::planner
