// SPDX-License-Identifier: Apache-2.0
// Tests whether accuracies, or what else the task is judged by, differ from float32's by more than
// they differ between seeds.

#include <fmt/format.h>

#include "figures/statistics.hpp"
#include "report/baseline.hpp"
#include "report/comparison.hpp"
#include "report/quantities.hpp"
#include "report/welch.hpp"

namespace eqt::report {
using figures::Cell;
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

}  // namespace eqt::report
