// SPDX-License-Identifier: Apache-2.0
// What is said of plans: crossovers, fronts, tables, drawings, the page.

#include "planner/plans.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

#include "figures/gnuplot.hpp"
#include "support/catch.hpp"
#include "support/html_check.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

/// 64 samples on each rank; a board costs 100 and consumes 2 J a step.
PlannedRun run(const std::string& scheme, int ranks, double step_seconds) {
  PlannedRun result = {.scheme = scheme, .ranks = ranks, .collective = "ring", .forecast = {}};
  result.forecast.step_seconds = {step_seconds};
  result.forecast.mean_seconds = step_seconds;
  result.forecast.boards = {{.computing = 1, .waiting = step_seconds - 1}};
  result.samples = 64.0 * ranks;
  result.epoch_seconds = 100 / result.samples * step_seconds;
  result.joules = 2 * ranks;
  result.epoch_joules = 100 / result.samples * result.joules;
  result.price = 100 * ranks;
  return result;
}

/// Of 1, 2 and 4 ranks "slow" takes 1, 3 and 5 seconds a step, "fast<&>" 1, 1.5 and 1.25.
Plans made() {
  Plans plans;
  plans.ranks = {1, 2, 4};
  plans.by_ranks = {{run("slow", 1, 1), run("slow", 2, 3), run("slow", 4, 5)},
                    {run("fast<&>", 1, 1), run("fast<&>", 2, 1.5), run("fast<&>", 4, 1.25)}};
  for (const auto& runs : plans.by_ranks) plans.whole.push_back(runs.back());
  plans.break_even = {std::nan(""), 250};
  plans.compresses = {false, true};
  plans.best = 1;
  plans.float32 = 0;
  return plans;
}

ClusterFile cluster(double price, double watts) {
  ClusterFile file;
  file.cluster.links = {{.name = "lan", .bytes_per_second = 1e7}};
  file.cluster.boards = {{.name = "pi", .count = 4, .step_seconds = 1, .speed = {}}};
  file.facts = {{.flops = {}, .busy_watts = watts, .price = price}};
  return file;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the number of ranks beyond which more are slower", "[planner]") {
  const Plans plans = made();
  // A sample of four ranks takes 5 / 256 s, of one 1 / 64 s.
  CHECK(crossover(plans.by_ranks[0]) == 1);
  CHECK_FALSE(crossover(plans.by_ranks[1]));
  CHECK_THAT(drawing_of(plans).description, ContainsSubstring("slow: more than 1 make it slower"));
}

TEST_CASE("one board alone is named first where nothing beats it", "[planner]") {
  Plans plans = made();
  const ClusterFile file = cluster(0, 0);
  CHECK(more_boards_sentence(plans, file).empty());
  CHECK(answer_of(plans, file).size() == 2);
  CHECK(tables_of(plans, file)[0].rows.size() == 2);
  // "fast" takes 1.25 s for 4 * 64 samples: 204.8 a second.
  plans.one_board = run("one pi alone", 1, 1);  // 64 a second: 3.2 times less
  plans.pays_from = {410, 12.34};
  CHECK_FALSE(one_board_is_fastest(plans));
  CHECK(times_one_board(plans, plans.whole[1]) == Approx(3.2));
  // 10 MB/s of data in 1514 of 1448 bytes are 83.6 Mb/s; "slow" takes 5 s for 256 samples.
  CHECK(answer_of(plans, file)[0] ==
        "More boards pay from 12.3 Mb/s of the slowest link on (fast<&>), float32 from 410 Mb/s "
        "on; here, at 83.6 Mb/s, 3.20 times one board alone (fast<&>), float32 0.80.");
  CHECK_THAT(answer_of(plans, file)[2],
             Catch::Matchers::StartsWith("fast<&> by ring on 4 ranks: 1.25 s a step"));
  auto table = tables_of(plans, file)[0];
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0]["times_one_board"] == Approx(0.8));
  CHECK(table.rows[0]["pays_from"] == 410);
  CHECK(table.rows[2]["scheme"] == "one pi alone");
  // 213 a second: 0.96 times as many.
  plans.one_board = run("one pi alone", 1, 0.3);
  CHECK(one_board_is_fastest(plans));
  CHECK_THAT(answer_of(plans, file)[0],
             Catch::Matchers::StartsWith("one pi alone is the fastest: 0.3 s a step, 0.469 s an "
                                         "epoch; more boards pay from 12.3 Mb/s") &&
                 ContainsSubstring(" 0.96 times one board alone (fast<&>)"));
  table = tables_of(plans, file)[0];
  CHECK(table.rows[0]["scheme"] == "one pi alone");
  CHECK(table.rows[0]["times_one_board"] == 1);
  // Faster by less than 1 %: more boards bring nothing.
  plans.one_board = run("one pi alone", 1, 1.009 * 64 / 204.8);
  CHECK(one_board_is_fastest(plans));
  plans.one_board = run("one pi alone", 1, 1.011 * 64 / 204.8);
  CHECK_FALSE(one_board_is_fastest(plans));
}

TEST_CASE("a scheme that does not fit some numbers of ranks is planned for the others",
          "[planner]") {
  Plans plans = made();
  plans.by_ranks[0].erase(plans.by_ranks[0].begin() + 1);
  CHECK(find_ranks(plans.by_ranks[0], 2) == nullptr);
  REQUIRE(find_ranks(plans.by_ranks[0], 4) != nullptr);
  CHECK(find_ranks(plans.by_ranks[0], 4)->forecast.mean_seconds == 5);
  const PlanTable table = tables_of(plans, cluster(0, 0))[1];
  REQUIRE(table.rows.size() == 3);
  CHECK_FALSE(table.rows[1].contains("slow"));
  CHECK(table.rows[1].contains("fast<&>"));
  // 100 / 256 of the epoch's samples in each of 5 seconds.
  CHECK(table.rows[2]["slow"].get<double>() == Approx(100.0 / 256 * 5 / 60));
  // The best scheme may not fit one board more.
  plans.ranks = {1, 2, 4, 5};
  plans.by_ranks[0].push_back(run("slow", 5, 6));
  CHECK_THAT(best_sentence(plans, cluster(0, 0)), !ContainsSubstring("a further pi"));
  plans.by_ranks[1].push_back(run("fast<&>", 5, 1.25));
  CHECK_THAT(best_sentence(plans, cluster(0, 0)), ContainsSubstring("a further pi gains 25.0 %"));
}

TEST_CASE("links of every rate and of none on which more boards pay", "[planner]") {
  Plans plans = made();
  const ClusterFile file = cluster(0, 0);
  plans.one_board = run("one pi alone", 1, 1);
  plans.pays_from = {INFINITY, 0};
  CHECK(first_to_pay(plans) == 1);
  CHECK_THAT(more_boards_sentence(plans, file),
             Catch::Matchers::StartsWith(
                 "More boards pay on links of every rate (fast<&>), float32 on no link; here"));
  CHECK(tables_of(plans, file)[0].rows[0]["pays_from"] == "never");
  CHECK(tables_of(plans, file)[0].rows[1]["pays_from"] == "always");
  // The best scheme here, "fast", need not be the first one that pays.
  plans.pays_from = {3, 5};
  CHECK(first_to_pay(plans) == 0);
  CHECK_THAT(more_boards_sentence(plans, file),
             Catch::Matchers::StartsWith(
                 "More boards pay from 3 Mb/s of the slowest link on (slow); here, at 83.6 Mb/s, "
                 "3.20 times one board alone (fast<&>)"));
  plans.pays_from = {5, 5};
  CHECK(first_to_pay(plans) == 1);
  plans.pays_from = {INFINITY, INFINITY};
  CHECK_THAT(more_boards_sentence(plans, file),
             Catch::Matchers::StartsWith("More boards pay on no link; here, at"));
}

TEST_CASE("schemes within 2 % of the best are equally fast", "[planner]") {
  Plans plans = made();
  CHECK(ties_of(plans).empty());
  CHECK(best_sentence(plans, cluster(0, 0)).find("as fast") == std::string::npos);
  // 1.25 s a step: 1.27 s is 1.6 % more, 1.28 s 2.4 %.
  for (const auto& [name, seconds] : {std::pair("near", 1.27), std::pair("behind", 1.28)}) {
    plans.whole.push_back(run(name, 4, seconds));
    plans.by_ranks.push_back({run(name, 1, 1), run(name, 2, 1.5), plans.whole.back()});
    plans.break_even.push_back(100);
    plans.compresses.push_back(true);
  }
  CHECK(ties_of(plans) == "near");
  CHECK_THAT(best_sentence(plans, cluster(0, 0)),
             ContainsSubstring("as fast, within 2 %: near; slow: 5 s"));
}

TEST_CASE("the first sentence says below which rate compression pays", "[planner]") {
  Plans plans = made();
  CHECK_THAT(pays_sentence(plans),
             ContainsSubstring("pays below 250 Mb/s") && ContainsSubstring("fast<&>"));
  plans.break_even[1] = INFINITY;
  CHECK_THAT(pays_sentence(plans), ContainsSubstring("links of every rate"));
  plans.break_even[1] = 0;
  CHECK_THAT(pays_sentence(plans), ContainsSubstring("on no link"));
  plans.break_even[1] = std::nan("");  // one rank
  CHECK(pays_sentence(plans).empty());
  plans.break_even[1] = 250;
  plans.compresses[1] = false;  // other batches, which compress nothing
  CHECK(pays_sentence(plans).empty());
}

TEST_CASE("fronts are marked where prices and watts are known", "[planner]") {
  Plans plans = made();
  mark_fronts(plans, cluster(0, 0));
  CHECK_FALSE(plans.by_ranks[0][0].pareto);
  CHECK(tables_of(plans, cluster(0, 0)).size() == 2);
  CHECK(drawings_of(plans, cluster(0, 0)).size() == 3);
  mark_fronts(plans, cluster(100, 0));
  CHECK(plans.by_ranks[0][0].pareto->price);  // of equal ones the first
  CHECK_FALSE(plans.by_ranks[1][0].pareto->price);
  CHECK_FALSE(plans.by_ranks[0][1].pareto->price);
  CHECK(plans.by_ranks[1][1].pareto->price);
  CHECK(plans.by_ranks[1][2].pareto->price);
  CHECK_FALSE(plans.by_ranks[1][2].pareto->joules);
  CHECK(row_of(plans.by_ranks[1][2])["pareto"] == true);
  CHECK(row_of(plans.by_ranks[0][2])["pareto"] == false);
  CHECK_FALSE(row_of(plans.whole[0]).contains("pareto"));
  // A sample takes the same energy everywhere: only the fastest is on that front.
  mark_fronts(plans, cluster(100, 5));
  CHECK_FALSE(plans.by_ranks[0][0].pareto->joules);
  CHECK(plans.by_ranks[1][2].pareto->joules);
  const auto tables = tables_of(plans, cluster(100, 5));
  REQUIRE(tables.size() == 3);
  CHECK(tables[2].rows.size() == 3);
  CHECK(tables[2].rows[2]["front"] == "price and energy");
  CHECK(drawings_of(plans, cluster(100, 5)).size() == 5);
}

TEST_CASE("a plan that does not fit into memory is on no front", "[planner]") {
  Plans plans = made();
  plans.by_ranks[1][2].too_small = {"pi"};
  mark_fronts(plans, cluster(100, 5));
  CHECK_FALSE(plans.by_ranks[1][2].pareto->price);
  CHECK(plans.by_ranks[1][1].pareto->joules);
}

TEST_CASE("drawings say their figures in words", "[planner]") {
  Plans plans = made();
  const ClusterFile file = cluster(100, 5);
  mark_fronts(plans, file);
  const auto drawings = drawings_of(plans, file);
  REQUIRE(drawings.size() == 5);
  CHECK_THAT(drawings[1].description, ContainsSubstring("slow: computing 1 s, waiting 4 s"));
  CHECK_THAT(drawings[2].description, ContainsSubstring("fast<&>: below 250 Mb/s"));
  CHECK_THAT(drawings[3].description,
             ContainsSubstring("slow on 1 ranks") && ContainsSubstring("100 EUR"));
  CHECK_THAT(drawings[4].description, ContainsSubstring("Nothing beats fast<&> on 4 ranks"));
}

TEST_CASE("the page needs no other file", "[planner]") {
  Plans plans = made();
  const ClusterFile file = cluster(100, 5);
  mark_fronts(plans, file);
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.html";
  write_page(path, plans, file, {"guessed: <adding>"});
  const std::string html = contents_of(path);
  CHECK(test::unbalanced_tag(html).empty());
  CHECK_THAT(html, ContainsSubstring("fast&lt;&amp;&gt; by ring on 4 ranks") &&
                       ContainsSubstring("4 ranks, by") &&
                       ContainsSubstring("guessed: &lt;adding&gt;") &&
                       ContainsSubstring("Minutes an epoch by"));
  for (const char* const outside : {"src=", "<script", "<link", "@import", "url(http"})
    CHECK(html.find(outside) == std::string::npos);
  if (!figures::plot_available()) return;
  CHECK(test::count_of(html, "<svg ") == 5);
  CHECK(test::repeated_id(html).empty());
}

}  // namespace eqt::planner
