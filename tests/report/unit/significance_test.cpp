// SPDX-License-Identifier: Apache-2.0
#include "report/significance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/distributions.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;

namespace {

/// Runs of a compressor, and of other settings, that end with these accuracies.
void add_runs(std::vector<Run>& runs, const std::string& compressor,
              const std::vector<double>& accuracies,
              const std::map<std::string, std::string>& settings = {}) {
  for (const double accuracy : accuracies) {
    Run run;
    run.settings = settings;
    run.settings["compressor.name"] = run.compressor = compressor;
    run.algorithm = "allreduce";
    run.finished = true;
    run.outcome.test_accuracy = accuracy;
    runs.push_back(run);
  }
}

const Cell& cell_of(const Table& table, std::size_t row, const std::string& key) {
  const auto column = std::ranges::find(table.columns, key, &Column::key);
  REQUIRE(column != table.columns.end());
  return table.rows.at(row).at(static_cast<std::size_t>(column - table.columns.begin()));
}

double value_of(const Table& table, std::size_t row, const std::string& key) {
  return *cell_of(table, row, key).value;
}

bool has_note(const Table& table, const std::string& part) {
  return std::ranges::any_of(
      table.notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("Welch's test agrees with two published examples", "[report]") {
  // Expected: SciPy 1.17.1, ttest_ind(equal_var=False).
  const std::vector<Figure> a = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                                 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
  const std::vector<Figure> b = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                                 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4};
  const auto equal = welch_test(spread_of(a), spread_of(b));
  REQUIRE(equal);
  CHECK(equal->t == Approx(-2.455356398286006).epsilon(1e-12));
  CHECK(equal->degrees == Approx(24.988529290231416).epsilon(1e-12));
  CHECK(equal->p == Approx(0.021378001462866992).epsilon(1e-11));

  const std::vector<Figure> three = {0.848, 0.844, 0.852}, others = {0.853, 0.842, 0.865};
  const auto small = welch_test(spread_of(three), spread_of(others));
  REQUIRE(small);
  CHECK(small->t == Approx(-0.7584727410239425).epsilon(1e-11));
  CHECK(small->degrees == Approx(2.476659183430991).epsilon(1e-11));
  CHECK(small->p == Approx(0.5137621115363452).epsilon(1e-11));
  CHECK(welch_test(spread_of(others), spread_of(three))->t == -small->t);
}

TEST_CASE("Welch's test needs two runs each, and a deviation", "[report]") {
  const Spread one{1, 1, 0.5, {}}, two{2, 2, 0.5, 0.1}, still{2, 2, 0.5, 0.0};
  CHECK_FALSE(welch_test(one, two));
  CHECK_FALSE(welch_test(two, one));
  CHECK_FALSE(welch_test(still, still));
  const auto equal = welch_test(two, two);
  REQUIRE(equal);
  CHECK(equal->t == 0);
  CHECK(equal->p == 1);
  // One side without deviation: degrees are the other's.
  CHECK(welch_test(two, still)->degrees == Approx(1.0).epsilon(1e-14));
}

TEST_CASE("the paired test agrees with Student's example", "[report]") {
  // These are the hours of sleep that two drugs gained (Student 1908, section IX). Expected: SciPy
  // 1.17.1, ttest_rel.
  const std::vector<double> one = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const std::vector<double> other = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  std::vector<Figure> differences;
  for (std::size_t i = 0; i < one.size(); ++i) differences.emplace_back(one[i] - other[i]);
  const auto test = paired_test(spread_of(differences));
  REQUIRE(test);
  CHECK(test->t == Approx(-4.062127683382037).epsilon(1e-12));
  CHECK(test->degrees == 9);
  CHECK(test->p == Approx(0.002832890197384273).epsilon(1e-10));
  CHECK_FALSE(paired_test(spread_of(std::vector<Figure>{1.0})));
  CHECK_FALSE(paired_test(spread_of(std::vector<Figure>{1.0, 1.0, 1.0})));
}

TEST_CASE("equivalence is shown by two one-sided tests", "[report]") {
  // Expected: statsmodels, ttost_ind(usevar="unequal") of the first example above.
  const Spread a{15, 15, 20.82, 2.8048936827317665},
      b{15, 15, 22.986666666666665, 1.9526050974702152};
  const auto test = welch_test(a, b);
  REQUIRE(test);
  CHECK(equivalence_p(a.mean - b.mean, *test, 5) == Approx(0.0018098759368345113).epsilon(1e-9));
  CHECK(equivalence_p(a.mean - b.mean, *test, 2) == Approx(0.5741412325300875).epsilon(1e-9));
  CHECK(equivalence_p(b.mean - a.mean, *test, 5) ==
        Approx(equivalence_p(a.mean - b.mean, *test, 5)).epsilon(1e-12));
}

TEST_CASE("groups have a variance in common, and a test says whether they do", "[report]") {
  // Expected: SciPy 1.17.1, stats.bartlett.
  const auto spread = [](std::vector<Figure> figures) { return spread_of(figures); };
  const auto pooled = pooled_variance({spread({7.40, 8.50, 7.20, 8.24, 9.84, 8.32}),
                                       spread({9.76, 8.80, 7.68, 9.36}),
                                       spread({12.80, 9.68, 12.16, 9.20, 10.55}), spread({1.0})});
  REQUIRE(pooled);
  CHECK(pooled->degrees == 12);
  CHECK(pooled->equal_p == Approx(0.4991748095048275).epsilon(1e-12));
  const Spread still{3, 3, 0.5, 0.0}, moving{3, 3, 0.5, 0.3};
  CHECK(pooled_variance({still, moving})->equal_p == 0);
  CHECK(pooled_variance({still, moving})->deviation == Approx(0.3 / std::sqrt(2.0)));
  CHECK_FALSE(pooled_variance({still, still}));
  CHECK_FALSE(pooled_variance({moving}));
}

TEST_CASE("accuracies are tested against the nearest float32", "[report]") {
  // Two graphs of each compressor; the nearest float32 is that of the same graph.
  std::vector<Run> runs;
  for (const char* graph : {"ring", "star"})
    for (const auto& [compressor, more] : {std::pair{"none", 0.0}, std::pair{"qsgd", 0.1}})
      add_runs(runs, compressor, {0.51 + more, 0.54 + more, 0.59 + more},
               {{"compressor.bits", compressor}, {"synchronization.topology.kind", graph}});
  const std::vector<Table> tables = significance_tables(groups_of(runs), {});
  REQUIRE(tables.size() == 1);  // there is no training loss
  const Table& table = tables.front();
  REQUIRE(table.rows.size() == 2);
  CHECK(cell_of(table, 0, "baseline").text == "float32, kind ring");
  CHECK(cell_of(table, 1, "baseline").text == "float32, kind star");
  CHECK(value_of(table, 0, "difference") == Approx(0.1));
  // Equal deviations of three runs each: four degrees of freedom.
  CHECK(value_of(table, 0, "degrees_of_freedom") == Approx(4.0));
  CHECK(as_text(table).find("against 0.025 (Bonferroni)") != std::string::npos);
  for (Run& run : runs) run.settings["compressor.name"] = run.compressor = "qsgd";
  CHECK(significance_tables(groups_of(runs), {}).empty());
}

TEST_CASE("differences have Welch's interval, and none is found where it contains zero",
          "[report]") {
  std::vector<Run> runs;
  add_runs(runs, "none", {0.848, 0.844, 0.852});
  add_runs(runs, "qsgd", {0.853, 0.842, 0.865});
  const Table table = significance_tables(groups_of(runs), {}).front();
  REQUIRE(table.rows.size() == 1);
  // Expected: SciPy 1.17.1, ttest_ind(equal_var=False).confidence_interval(0.95).
  CHECK(value_of(table, 0, "interval_low") == Approx(-0.01997277282270723).epsilon(1e-9));
  CHECK(value_of(table, 0, "interval_high") == Approx(0.03063943948937361).epsilon(1e-9));
  CHECK(cell_of(table, 0, "difference").text == "none found (within 3.06)");
  CHECK(value_of(table, 0, "difference") == Approx(0.0160 / 3));
  // One comparison of as many runs: Dunnett's interval is Student's with four degrees.
  const double error = value_of(table, 0, "difference") / value_of(table, 0, "t");
  CHECK(value_of(table, 0, "dunnett_high") - value_of(table, 0, "difference") ==
        Approx(student_quantile(0.05, 4) * error).epsilon(1e-8));
  // Expected: statsmodels, ttost_ind(usevar="unequal"): 0.5171 and 0.006845.
  CHECK(cell_of(table, 0, "equivalence_p").text == "not shown, p 0.52");
  const Table wide = significance_tables(groups_of(runs), {"", 5}).front();
  CHECK(cell_of(wide, 0, "equivalence_p").text == "yes, p 0.0068");

  for (Run& run : runs)
    if (run.compressor == "qsgd") *run.outcome.test_accuracy -= 0.1;
  const Table worse = significance_tables(groups_of(runs), {}).front();
  CHECK(cell_of(worse, 0, "difference").text == "-9.5 ± 0.7");
}

TEST_CASE("runs of the same seed are compared as pairs", "[report]") {
  std::vector<Run> runs;
  add_runs(runs, "none", {0.848, 0.844, 0.852, 0.900});
  add_runs(runs, "qsgd", {0.857, 0.846, 0.851, 0.700, 0.710, 0.720});
  const std::vector<std::string> seeds = {"1", "2", "3", "4", "3", "2", "1", "5", "6", "6"};
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].seed = seeds[i];
  const std::vector<Table> tables = significance_tables(groups_of(runs), {"", 0.5});
  REQUIRE(tables.size() == 2);
  const Table& table = tables[1];
  CHECK(table.name == "paired");
  CHECK(table.caption == "Test accuracy against float32, runs of the same seed");
  REQUIRE(table.rows.size() == 1);
  // Expected: SciPy 1.17.1, ttest_rel and ttest_1samp with alternatives, of the seeds 1 to 3.
  CHECK(value_of(table, 0, "pairs") == 3);
  CHECK(value_of(table, 0, "difference") == Approx(0.01 / 3).epsilon(1e-9));
  CHECK(value_of(table, 0, "t") == Approx(3.779644730092272).epsilon(1e-9));
  CHECK(cell_of(table, 0, "difference").text == "none found (within 0.71)");
  CHECK(value_of(table, 0, "interval_low") == Approx(-0.0004612497002634266).epsilon(1e-9));
  CHECK(value_of(table, 0, "interval_high") == Approx(0.007127916366930099).epsilon(1e-9));
  CHECK(value_of(table, 0, "equivalence_p") == Approx(0.09967961548728253).epsilon(1e-9));
  CHECK(cell_of(table, 0, "equivalence_p").text == "not shown, p 0.1");
  CHECK(cell_of(significance_tables(groups_of(runs), {"", 0.75})[1], 0, "equivalence_p").text ==
        "yes, p 0.021");
  // Every run of the other row ends 1.1 points higher, so the pairs' deviation is as it was.
  for (Run& run : runs)
    if (run.compressor == "qsgd") *run.outcome.test_accuracy += 0.011;
  const Table higher = significance_tables(groups_of(runs), {})[1];
  CHECK(cell_of(higher, 0, "difference").text == "1.43 ± 0.09");
  // Without a seed in common there is nothing to pair.
  for (Run& run : runs)
    if (run.compressor == "qsgd") run.seed += "0";
  CHECK(significance_tables(groups_of(runs), {}).size() == 1);
}

TEST_CASE("rows of one baseline are compared together", "[report]") {
  // The example of Dunnett (1955). Expected t and intervals: SciPy 1.17.1, stats.dunnett, which
  // draws random numbers; p: SciPy's integrate.quad.
  std::vector<Run> runs;
  add_runs(runs, "none", {7.40, 8.50, 7.20, 8.24, 9.84, 8.32});
  add_runs(runs, "a", {9.76, 8.80, 7.68, 9.36});
  add_runs(runs, "b", {12.80, 9.68, 12.16, 9.20, 10.55});
  const Table table = significance_tables(groups_of(runs), {}).front();
  REQUIRE(table.rows.size() == 2);
  CHECK(value_of(table, 0, "dunnett_p") == Approx(0.6201019800184557).epsilon(1e-8));
  CHECK(value_of(table, 1, "dunnett_p") == Approx(0.0058253608479468255).epsilon(1e-6));
  CHECK(value_of(table, 0, "dunnett_low") == Approx(-1.2572).margin(3e-3));
  CHECK(value_of(table, 1, "dunnett_high") == Approx(4.4171).margin(3e-3));
  CHECK_FALSE(has_note(table, "Bartlett"));
  CHECK(cell_of(table, 0, "difference").text.starts_with("none found (within"));
  for (Run& run : runs)
    if (run.compressor == "b") *run.outcome.test_accuracy *= 30;
  CHECK(has_note(significance_tables(groups_of(runs), {}).front(), "Bartlett"));
}

TEST_CASE("a difference is found by either interval, by Dunnett's if deviations agree",
          "[report]") {
  // Of two runs each Welch's test has hardly more than one degree of freedom, all rows together
  // have five.
  const auto table_of = [](double second) {
    std::vector<Run> runs;
    add_runs(runs, "none", {0.800, second});
    for (const char* compressor : {"a", "b", "c"}) add_runs(runs, compressor, {0.8000, 0.8002});
    add_runs(runs, "d", {0.7930, 0.7932});
    return significance_tables(groups_of(runs), {}).front();
  };
  const Table table = table_of(0.8004);
  CHECK(value_of(table, 3, "interval_low") < 0);
  CHECK(value_of(table, 3, "dunnett_high") < 0);
  CHECK(cell_of(table, 0, "difference").text.starts_with("none found (within"));
  CHECK(cell_of(table, 3, "difference").text.starts_with("-0.71"));
  // A baseline that varies a hundred times as much has no variance in common with them.
  const Table uneven = table_of(0.808);
  CHECK(has_note(uneven, "Bartlett"));
  CHECK(value_of(uneven, 3, "dunnett_high") < 0);
  CHECK(cell_of(uneven, 3, "difference").text.starts_with("none found (within"));
}

TEST_CASE("any row is the baseline of all others, and losses are tested too", "[report]") {
  std::vector<Run> runs;
  add_runs(runs, "none", {0.80, 0.81, 0.82});
  add_runs(runs, "qsgd", {0.70, 0.71, 0.72});
  add_runs(runs, "topk", {0.69, 0.71, 0.73});
  for (Run& run : runs) run.outcome.train_loss = 2 - *run.outcome.test_accuracy;
  const std::vector<Group> groups = groups_of(runs);
  const std::vector<Table> tables = significance_tables(groups, {"qsgd", 2});
  REQUIRE(tables.size() == 2);
  REQUIRE(tables[0].rows.size() == 2);
  CHECK(tables[0].caption == "Test accuracy against qsgd");
  CHECK(cell_of(tables[0], 0, "run").text == "float32");
  CHECK(cell_of(tables[0], 1, "run").text == "topk");
  CHECK(value_of(tables[0], 0, "difference") == Approx(0.1));
  CHECK(cell_of(tables[0], 1, "baseline").text == "qsgd");
  CHECK(tables[1].name == "significance-loss");
  CHECK(value_of(tables[1], 0, "difference") == Approx(-0.1));
  // 2 % of a loss of 1.29.
  const auto test = welch_test(groups[2].spread([](const Run& r) { return r.outcome.train_loss; }),
                               groups[1].spread([](const Run& r) { return r.outcome.train_loss; }));
  CHECK(value_of(tables[1], 1, "equivalence_p") ==
        Approx(equivalence_p(0, *test, 0.02 * 1.29)).epsilon(1e-6));

  CHECK(test::says(test::refusal(Kind::usage, [&] { (void)significance_tables(groups, {"dgc"}); }),
                   "found dgc; it has float32; qsgd; topk"));
  std::vector<Run> unfinished = runs;
  for (Run& run : unfinished)
    if (run.compressor == "qsgd") run.finished = false;
  const std::vector<Group> some = groups_of(unfinished);
  const auto label = std::ranges::find_if_not(some, &Group::finished)->label;
  CHECK(test::says(test::refusal(Kind::usage, [&] { (void)significance_tables(some, {label}); }),
                   "did not come to their end"));
}
