// SPDX-License-Identifier: Apache-2.0
#include "report/significance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.hpp"
#include "figures/text.hpp"
#include "report/distributions.hpp"
#include "report/quantities.hpp"
#include "report/values.hpp"

namespace eqt::report {

using figures::Cell;
using figures::Column;
using figures::measured_text;
using figures::number_cell;
using figures::number_text;
using figures::text_cell;

namespace {

using Type = Column::Type;
constexpr double kLevel = 0.05;

/// A figure whose differences are tested.
struct Tested {
  std::string suffix;  // of the names of its tables
  std::string title;   // for people, without a unit
  bool fraction;       // from 0 to 1, shown as a percentage
  Digits digits;       // of differences
  std::function<Figure(const Run&)> of;

  double scale() const { return fraction ? 100 : 1; }
  std::string unit() const { return fraction ? " [points]" : ""; }
  /// The margin in the figure's own unit.
  double margin(double asked, double baseline_mean) const {
    return 0.01 * asked * (fraction ? 1 : std::abs(baseline_mean));
  }
  std::string margin_text(double asked) const {
    return fmt::format("± {:g}{}", asked, fraction ? "" : " %");
  }
};

/// A comparison says with what one group is compared, and by which test.
struct Comparison {
  const Group* group;
  const Group* baseline;
  Spread ours, theirs;
  TTest welch;
  double difference() const { return ours.mean - theirs.mean; }
};

/// A paired comparison is of the runs of a group and of its baseline that have the same seed.
struct PairedComparison {
  const Group* group;
  const Group* baseline;
  Spread differences;
  double baseline_mean;  // of all its runs
  TTest test;
};

/// The comparisons with one baseline, which share a variance.
struct Family {
  std::optional<PooledVariance> pooled;
  std::vector<double> weights;  // of Dunnett's distribution
  double quantile = 0;          // of it, at kLevel
};

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

/// The group that was asked for.
const Group& group_named(const std::string& row, const std::vector<Group>& groups) {
  const auto found = std::ranges::find(groups, row, &Group::label);
  if (found == groups.end()) {
    constexpr std::size_t kShown = 20;
    std::vector<std::string> labels;
    for (const Group& group : groups)
      if (labels.size() < kShown) labels.push_back(group.label);
    fail(Kind::usage, "report: expected a row of the report in --baseline, found {}; it has {}{}",
         visible(row), fmt::join(labels, "; "),
         groups.size() > kShown ? fmt::format(" and {} more", groups.size() - kShown) : "");
  }
  if (!is_comparable(*found, groups))
    fail(Kind::usage,
         "report: expected a row of finished runs in --baseline, found {}, whose runs did not come "
         "to their end; choose another",
         visible(row));
  return *found;
}

/// Groups that may be tested are kept with their baselines.
using Compared = std::vector<std::pair<const Group*, const Group*>>;

/// Returns the groups that may be tested, each with its baseline.
Compared with_baselines(const std::vector<Group>& groups, const Baseline& asked) {
  const Group* const named = asked.row.empty() ? nullptr : &group_named(asked.row, groups);
  Compared all;
  for (const Group& group : groups) {
    const Group* baseline = named == nullptr ? baseline_of(group, groups) : named;
    if (baseline != nullptr && baseline != &group && is_comparable(group, groups))
      all.emplace_back(&group, baseline);
  }
  return all;
}

std::vector<Comparison> comparisons_of(const Compared& compared, const Tested& tested) {
  std::vector<Comparison> all;
  for (const auto& [group, baseline] : compared) {
    const Spread ours = group->spread(tested.of), theirs = baseline->spread(tested.of);
    if (const auto test = welch_test(ours, theirs))
      all.push_back({group, baseline, ours, theirs, *test});
  }
  return all;
}

/// Returns figures by seed. A seed that several runs have is left out: which of them would be the
/// pair?
std::map<std::string, double> by_seed(const Group& group, const Tested& tested) {
  std::map<std::string, std::vector<Figure>> found;
  for (const Run* run : group.runs) found[run->seed].push_back(figures::finite(tested.of(*run)));
  std::map<std::string, double> figures;
  for (const auto& [seed, of] : found)
    if (of.size() == 1 && of.front()) figures[seed] = *of.front();
  return figures;
}

std::vector<PairedComparison> paired_comparisons_of(const Compared& compared,
                                                    const Tested& tested) {
  std::vector<PairedComparison> all;
  for (const auto& [group, baseline] : compared) {
    const std::map<std::string, double> theirs = by_seed(*baseline, tested);
    std::vector<Figure> differences;
    double largest = 0;
    for (const auto& [seed, figure] : by_seed(*group, tested)) {
      const auto other = theirs.find(seed);
      if (other == theirs.end()) continue;
      differences.emplace_back(figure - other->second);
      largest = std::max({largest, std::abs(figure), std::abs(other->second)});
    }
    const Spread spread = figures::spread_of(differences, largest);
    if (const auto test = paired_test(spread))
      all.push_back({group, baseline, spread, baseline->spread(tested.of).mean, *test});
  }
  return all;
}

double runs_of(const Spread& spread) { return static_cast<double>(spread.known); }

/// sqrt(1 / n_i + 1 / n_0), by which the common deviation becomes the error of a difference.
double pooled_factor(const Comparison& c) {
  return std::sqrt(1 / runs_of(c.ours) + 1 / runs_of(c.theirs));
}

std::map<const Group*, Family> families_of(const std::vector<Comparison>& comparisons) {
  std::map<const Group*, std::vector<Spread>> spreads;
  std::map<const Group*, Family> families;
  for (const Comparison& c : comparisons) {
    std::vector<Spread>& of = spreads[c.baseline];
    if (of.empty()) of.push_back(c.theirs);
    of.push_back(c.ours);
    families[c.baseline].weights.push_back(
        std::sqrt(runs_of(c.ours) / (runs_of(c.ours) + runs_of(c.theirs))));
  }
  for (auto& [baseline, family] : families) {
    family.pooled = pooled_variance(spreads.at(baseline));
    if (family.pooled)
      family.quantile = dunnett_quantile(kLevel, family.pooled->degrees, family.weights);
  }
  return families;
}

/// False if Bartlett's test says that deviations differ.
bool has_common_variance(const Family& family) {
  return family.pooled && family.pooled->equal_p >= kLevel;
}

/// Returns half the width of the 95 % interval of a difference.
double reach_of(const TTest& test) { return student_quantile(kLevel, test.degrees) * test.error; }

/// Returns "-0.55 ± 0.24" with the standard error, if a difference was found; otherwise how far
/// from zero it may be by the test's interval.
Cell difference_cell(double difference, const TTest& test, bool is_found, const Tested& tested) {
  const double scale = tested.scale(), farthest = std::abs(difference) + reach_of(test);
  if (is_found) return {measured_text(scale * difference, scale * test.error), difference};
  return {fmt::format("none found (within {})", number_text(scale * farthest, tested.digits)),
          difference};
}

/// Returns "yes, p 0.01" of two one-sided tests of a margin in the figure's own unit.
Cell equivalence_cell(double difference, const TTest& test, double margin) {
  if (!(margin > 0)) return number_cell({}, {-1, 2});
  Cell cell = number_cell(equivalence_p(difference, test, margin), {-1, 2});
  cell.text = (*cell.value <= kLevel ? "yes, p " : "not shown, p ") + cell.text;
  return cell;
}

std::vector<Cell> cells_of(const Comparison& c, const Family& family, const Tested& tested,
                           double margin) {
  const double scale = tested.scale(), difference = c.difference(), reach = reach_of(c.welch);
  bool is_found = std::abs(difference) > reach;
  Figure low, high, p;
  if (family.pooled) {
    const double error = family.pooled->deviation * pooled_factor(c);
    is_found |= has_common_variance(family) && std::abs(difference) > family.quantile * error;
    low = difference - family.quantile * error;
    high = difference + family.quantile * error;
    p = dunnett_two_sided(difference / error, family.pooled->degrees, family.weights);
  }
  return {text_cell(c.group->label),
          difference_cell(difference, c.welch, is_found, tested),
          number_cell(difference - reach, tested.digits, scale),
          number_cell(difference + reach, tested.digits, scale),
          number_cell(c.welch.p, {-1, 2}),
          number_cell(low, tested.digits, scale),
          number_cell(high, tested.digits, scale),
          number_cell(p, {-1, 2}),
          equivalence_cell(difference, c.welch, tested.margin(margin, c.theirs.mean)),
          number_cell(c.welch.t, {2}),
          number_cell(c.welch.degrees, {1}),
          number_cell(runs_of(c.ours), {0}),
          number_cell(runs_of(c.theirs), {0}),
          text_cell(c.baseline->label)};
}

std::vector<Cell> cells_of(const PairedComparison& c, const Tested& tested, double margin) {
  const double scale = tested.scale(), difference = c.differences.mean, reach = reach_of(c.test);
  return {text_cell(c.group->label),
          difference_cell(difference, c.test, std::abs(difference) > reach, tested),
          number_cell(difference - reach, tested.digits, scale),
          number_cell(difference + reach, tested.digits, scale),
          number_cell(c.test.p, {-1, 2}),
          equivalence_cell(difference, c.test, tested.margin(margin, c.baseline_mean)),
          number_cell(c.test.t, {2}),
          number_cell(runs_of(c.differences), {0}),
          text_cell(c.baseline->label)};
}

std::string equivalence_note(const Tested& tested, double margin) {
  return fmt::format(
      "Within {}{}: two one-sided tests show at 5 % that the means differ by less than that, "
      "the margin; \"not shown\" is not \"differs\".",
      tested.margin_text(margin), tested.fraction ? "" : " of the baseline's");
}

std::string bonferroni_note(std::size_t tests, const std::string& whose) {
  return fmt::format("Of {} tests at {} some fail by chance: hold {} against {:.2g} (Bonferroni).",
                     tests, kLevel, whose, kLevel / static_cast<double>(tests));
}

std::vector<std::string> notes_of(const std::vector<Comparison>& comparisons,
                                  const std::map<const Group*, Family>& families,
                                  const Tested& tested, double margin) {
  std::vector<std::string> notes = {
      fmt::format(
          "Difference ± its standard error{}; \"none found (within x)\" where both intervals "
          "contain 0, with the farther end of Welch's: what these seeds leave possible.",
          tested.fraction ? " in points" : ""),
      "Welch: each row by itself. p: how often equal means would give so large a difference, of "
      "either sign.",
      "Dunnett: all rows of one baseline together, with their common variance; all its intervals "
      "are right in 95 of 100 such reports."};
  notes.push_back(equivalence_note(tested, margin));
  if (comparisons.size() > 1) notes.push_back(bonferroni_note(comparisons.size(), "Welch's p"));
  for (const auto& [baseline, family] : families)
    if (family.pooled && !has_common_variance(family))
      notes.push_back(
          fmt::format("The deviations of {} and its rows differ by more than chance (Bartlett, p "
                      "{:.2g}), so they have no common variance: go by Welch there.",
                      baseline->label, family.pooled->equal_p));
  return notes;
}

/// Returns "Test accuracy against float32".
std::string caption_of(const Baseline& asked, const Tested& tested) {
  return fmt::format("{} against {}", capitalised(tested.title),
                     asked.row.empty() ? "float32" : visible(asked.row));
}

Table table_of(const Compared& compared, const Baseline& asked, const Tested& tested) {
  const std::vector<Comparison> comparisons = comparisons_of(compared, tested);
  Table table{"significance" + tested.suffix,
              caption_of(asked, tested),
              {{"run", "runs"},
               {"difference", "difference" + tested.unit(), Type::number},
               {"interval_low", "Welch, 95 % from", Type::number},
               {"interval_high", "to", Type::number},
               {"p", "p", Type::number},
               {"dunnett_low", "Dunnett, 95 % from", Type::number},
               {"dunnett_high", "to", Type::number},
               {"dunnett_p", "p", Type::number},
               {"equivalence_p", "within " + tested.margin_text(asked.margin), Type::number},
               {"t", "t", Type::number},
               {"degrees_of_freedom", "degrees of freedom", Type::number},
               {"seeds", "seeds", Type::number},
               {"baseline_seeds", "baseline's", Type::number},
               {"baseline", "baseline"}},
              {},
              {}};
  if (comparisons.empty()) return table;
  const std::map<const Group*, Family> families = families_of(comparisons);
  for (const Comparison& c : comparisons)
    table.rows.push_back(cells_of(c, families.at(c.baseline), tested, asked.margin));
  table.notes = notes_of(comparisons, families, tested, asked.margin);
  return table;
}

Table paired_table_of(const Compared& compared, const Baseline& asked, const Tested& tested) {
  Table table{"paired" + tested.suffix,
              caption_of(asked, tested) + ", runs of the same seed",
              {{"run", "runs"},
               {"difference", "difference" + tested.unit(), Type::number},
               {"interval_low", "95 % from", Type::number},
               {"interval_high", "to", Type::number},
               {"p", "p", Type::number},
               {"equivalence_p", "within " + tested.margin_text(asked.margin), Type::number},
               {"t", "t", Type::number},
               {"pairs", "pairs", Type::number},
               {"baseline", "baseline"}},
              {},
              {}};
  const std::vector<PairedComparison> comparisons = paired_comparisons_of(compared, tested);
  if (comparisons.empty()) return table;
  for (const PairedComparison& c : comparisons)
    table.rows.push_back(cells_of(c, tested, asked.margin));
  table.notes = {
      fmt::format(
          "The paired t-test of differences between two runs of the same seed, ± standard "
          "error{}; \"none found (within x)\" where the interval contains 0. Seeds that only "
          "one of the two has are left out.",
          tested.fraction ? " in points" : ""),
      equivalence_note(tested, asked.margin)};
  if (comparisons.size() > 1) table.notes.push_back(bonferroni_note(comparisons.size(), "p"));
  return table;
}

}  // namespace

std::vector<Table> significance_tables(const std::vector<Group>& groups, const Baseline& baseline) {
  const MainFigure main = main_figure(groups);
  const Compared compared = with_baselines(groups, baseline);
  std::vector<Table> tables;
  for (const Tested& tested : {Tested{"", main.title(), main.metric.fraction, main.digits(),
                                      [&](const Run& run) { return main.of(run); }},
                               Tested{"-loss", "training loss", false, Digits{4},
                                      [](const Run& run) { return run.outcome.train_loss; }}})
    for (const auto& make : {table_of, paired_table_of})
      if (Table table = make(compared, baseline, tested); !table.rows.empty())
        tables.push_back(std::move(table));
  return tables;
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

std::optional<TTest> welch_test(const Spread& a, const Spread& b) {
  if (!a.deviation || !b.deviation) return {};
  const double of_a = *a.deviation * *a.deviation / runs_of(a);
  const double of_b = *b.deviation * *b.deviation / runs_of(b);
  const double sum = of_a + of_b;
  if (!(sum > 0) || !std::isfinite(sum)) return {};
  TTest test;
  test.error = std::sqrt(sum);
  test.t = (a.mean - b.mean) / test.error;
  // Relative to the sum, so that squares of small variances do not underflow.
  const double share_a = of_a / sum, share_b = of_b / sum;
  test.degrees = 1 / (share_a * share_a / (runs_of(a) - 1) + share_b * share_b / (runs_of(b) - 1));
  test.p = student_two_sided(test.t, test.degrees);
  return test;
}

std::optional<TTest> paired_test(const Spread& differences) {
  const Figure error = differences.standard_error();
  if (!error || !(*error > 0) || !std::isfinite(*error)) return {};
  TTest test;
  test.error = *error;
  test.t = differences.mean / test.error;
  test.degrees = runs_of(differences) - 1;
  test.p = student_two_sided(test.t, test.degrees);
  return test;
}

double equivalence_p(double difference, const TTest& test, double margin) {
  return std::max(student_upper((margin + difference) / test.error, test.degrees),
                  student_upper((margin - difference) / test.error, test.degrees));
}

std::optional<PooledVariance> pooled_variance(const std::vector<Spread>& groups) {
  double squares = 0, degrees = 0, logarithms = 0, inverses = 0, counted = 0;
  for (const Spread& group : groups) {
    if (!group.deviation) continue;
    const double own = runs_of(group) - 1;
    squares += own * *group.deviation * *group.deviation;
    logarithms += own * 2 * std::log(*group.deviation);  // -infinity of a group without deviation
    degrees += own;
    inverses += 1 / own;
    ++counted;
  }
  if (counted < 2 || !(squares > 0) || !std::isfinite(squares)) return {};
  PooledVariance pooled;
  pooled.deviation = std::sqrt(squares / degrees);
  pooled.degrees = degrees;
  const double correction = 1 + (inverses - 1 / degrees) / (3 * (counted - 1));
  const double statistic = (degrees * 2 * std::log(pooled.deviation) - logarithms) / correction;
  pooled.equal_p = chi_square_upper(statistic, counted - 1);
  return pooled;
}

}  // namespace eqt::report
