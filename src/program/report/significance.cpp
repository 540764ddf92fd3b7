// SPDX-License-Identifier: Apache-2.0
#include "report/significance.hpp"

#include <fmt/format.h>

#include <cmath>

#include "report/comparison.hpp"
#include "report/quantities.hpp"

namespace eqt::report {

using figures::Cell;
using figures::Column;
using figures::measured_text;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using Type = Column::Type;
constexpr double kLevel = 0.05;

/// "-0.5 ± 0.7": with the standard error of the difference.
Cell difference_cell(double difference, double error, double scale) {
  return {measured_text(scale * difference, scale * error), difference};
}

std::vector<Cell> cells_of(const Group& group, const Group& baseline, const MainFigure& main,
                           const Welch& test) {
  const auto of_run = [&](const Run& run) { return main.of(run); };
  const Spread ours = group.spread(of_run), theirs = baseline.spread(of_run);
  const Digits digits = main.digits();
  const double difference = ours.mean - theirs.mean;
  const double reach = student_quantile(kLevel, test.degrees) * test.error;
  return {text_cell(group.label),
          difference_cell(difference, test.error, main.scale()),
          number_cell(difference - reach, digits, main.scale()),
          number_cell(difference + reach, digits, main.scale()),
          number_cell(test.t, {2}),
          number_cell(test.degrees, {1}),
          number_cell(test.p, {-1, 2}),
          spread_cell(ours, digits, main.scale()),
          number_cell(static_cast<double>(ours.known), {0}),
          spread_cell(theirs, digits, main.scale()),
          number_cell(static_cast<double>(theirs.known), {0}),
          text_cell(baseline.label)};
}

bool is_float32(const Run& run) { return run.compressor == "none"; }

/// Settings in which groups differ, except those of the compressor.
std::size_t distance(const Group& a, const Group& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.differences.size(); ++i)
    count += !a.differences[i].first.starts_with("compressor.") &&
             a.differences[i].second != b.differences[i].second;
  return count;
}

bool may_be_baseline(const Group& of, const Group& other) {
  if (&of == &other || !is_float32(other.first()) || other.finished() != of.finished())
    return false;
  if (!is_float32(of.first())) return true;
  return of.first().algorithm != "allreduce" && other.first().algorithm == "allreduce";
}

/// 1 / (1 + d1 / (1 + d2 / (1 + ...))) of Abramowitz and Stegun, 26.5.8; it converges quickly for
/// x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  constexpr int kMaxTerms = 10000;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  // 1 + d1 / (1 + d2 / ...) grows term by term; the fraction is its inverse.
  double value = 1, c = 1, d = 0;
  for (int i = 1; i <= kMaxTerms; ++i) {
    const double m = i / 2;
    const double coefficient = i % 2 == 0
                                   ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                   : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + coefficient * d);
    c = not_zero(1 + coefficient / c);
    value *= c * d;
    if (std::abs(c * d - 1) < kEnough) break;
  }
  return 1 / value;
}

}  // namespace

Table significance_table(const std::vector<Group>& groups) {
  const MainFigure main = main_figure(groups);
  const auto of_run = [&](const Run& run) { return main.of(run); };
  Table table{
      "significance",
      capitalised(main.title()) + " against float32: Welch's t-test",
      {{"run", "runs"},
       {"difference", main.metric.fraction ? "difference [points]" : "difference", Type::number},
       {"interval_low", "95 % interval from", Type::number},
       {"interval_high", "to", Type::number},
       {"t", "t", Type::number},
       {"degrees_of_freedom", "degrees of freedom", Type::number},
       {"p", "p", Type::number},
       {main.key(), main.head(), Type::spread},
       {"seeds", "seeds", Type::number},
       {"baseline_" + main.metric.name, main.metric.fraction ? "baseline [%]" : "baseline's",
        Type::spread},
       {"baseline_seeds", "its seeds", Type::number},
       {"baseline", "baseline"}},
      {},
      {}};
  for (const Group& group : groups) {
    const Group* baseline = baseline_of(group, groups);
    if (baseline == nullptr || !is_comparable(group, groups)) continue;
    const auto test = welch_test(group.spread(of_run), baseline->spread(of_run));
    if (test) table.rows.push_back(cells_of(group, *baseline, main, *test));
  }
  if (table.rows.empty()) return table;
  table.notes = {
      "Difference ± its standard error, and Welch's 95 % confidence interval of it. p: how often "
      "equal means would give so large a t, of either sign."};
  if (table.rows.size() > 1)
    table.notes.push_back(
        fmt::format("Of {} tests at {} some fail by chance: hold p against {:.2g} (Bonferroni).",
                    table.rows.size(), kLevel, kLevel / static_cast<double>(table.rows.size())));
  return table;
}

const Group* baseline_of(const Group& group, const std::vector<Group>& groups) {
  const Group* nearest = nullptr;
  std::size_t least = 0, as_near = 0;
  for (const Group& other : groups) {
    if (!may_be_baseline(group, other)) continue;
    const std::size_t found = distance(group, other);
    if (nearest == nullptr || found < least) {
      nearest = &other;
      least = found;
      as_near = 0;
    }
    as_near += found == least;
  }
  return as_near == 1 ? nearest : nullptr;
}

double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(1 - x, b, a);
  const double logarithm =
      a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  return std::exp(logarithm) / a * beta_fraction(x, a, b);
}

double student_two_sided(double t, double degrees) {
  return incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5);
}

double student_quantile(double p, double degrees) {
  // The probability falls with t: double the upper end until it is passed, then bisect.
  double low = 0, high = 1;
  while (student_two_sided(high, degrees) > p) {
    low = high;
    high *= 2;
  }
  while (high - low > 1e-13 * high) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_two_sided(middle, degrees) > p ? low : high) = middle;
  }
  return high;
}

std::optional<Welch> welch_test(const Spread& a, const Spread& b) {
  if (!a.deviation || !b.deviation) return {};
  const auto count = [](const Spread& s) { return static_cast<double>(s.known); };
  const double of_a = *a.deviation * *a.deviation / count(a);
  const double of_b = *b.deviation * *b.deviation / count(b);
  const double sum = of_a + of_b;
  if (!(sum > 0)) return {};
  Welch test;
  test.error = std::sqrt(sum);
  test.t = (a.mean - b.mean) / test.error;
  // Relative to the sum, so that squares of small variances do not underflow.
  const double share_a = of_a / sum, share_b = of_b / sum;
  test.degrees = 1 / (share_a * share_a / (count(a) - 1) + share_b * share_b / (count(b) - 1));
  test.p = student_two_sided(test.t, test.degrees);
  return test;
}

}  // namespace eqt::report
