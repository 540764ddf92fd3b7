// SPDX-License-Identifier: Apache-2.0
// Which learning rates a job tries before its probe, and which of them counts as the best.

#include "planner/rate_search.hpp"

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Searches from `own` on; a loss that is not finite stands for a run that diverged.
std::vector<TriedRate> searched(double own, std::uint64_t most,
                                const std::function<double(double)>& loss_at) {
  std::vector<TriedRate> tried;
  while (const auto rate = next_rate(tried, own, most)) {
    const double loss = loss_at(*rate);
    tried.push_back(
        {.rate = *rate, .loss = std::isfinite(loss) ? std::optional(loss) : std::nullopt});
    REQUIRE(tried.size() <= most);
  }
  return tried;
}

std::vector<double> rates_of(const std::vector<TriedRate>& tried) {
  std::vector<double> rates;
  for (const TriedRate& one : tried) rates.push_back(one.rate);
  return rates;
}

/// A parabola over log2(rate) with its least loss 1 at `best`.
std::function<double(double)> bowl(double best) {
  return [best](double rate) { return 1 + std::pow(std::log2(rate / best), 2); };
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("rates are doubled or halved until both neighbours of the best are worse", "[planner]") {
  CHECK(rates_of(searched(0.1, 8, bowl(0.1))) == std::vector<double>{0.1, 0.2, 0.05});
  CHECK(rates_of(searched(0.1, 8, bowl(0.4))) == std::vector<double>{0.1, 0.2, 0.4, 0.8});
  CHECK(rates_of(searched(0.1, 8, bowl(0.025))) ==
        std::vector<double>{0.1, 0.2, 0.05, 0.025, 0.0125});
  CHECK(rates_of(searched(0.1, 3, bowl(1.6))) == std::vector<double>{0.1, 0.2, 0.4});
  CHECK(rates_of(searched(0.1, 1, bowl(1.6))) == std::vector<double>{0.1});
  CHECK(rates_of(searched(0, 8, [](double) { return 1.0; })) == std::vector<double>{0});
}

TEST_CASE("a rate that diverges is an answer", "[planner]") {
  const auto from = [](double limit) {
    return [limit](double rate) { return rate > limit ? kNan : 1 / rate; };
  };
  // Too fast at 0.4: 0.2 is the best, and nothing is fitted across the edge.
  const auto tried = searched(0.1, 8, from(0.3));
  CHECK(rates_of(tried) == std::vector<double>{0.1, 0.2, 0.4});
  CHECK(best_rate(tried) == 0.2);
  // The config's own diverges.
  const auto below = searched(0.8, 8, from(0.15));
  CHECK(rates_of(below) == std::vector<double>{0.8, 0.4, 0.2, 0.1, 0.05});
  CHECK(best_rate(below) == 0.1);
  const auto none = searched(0.8, 3, from(0.01));
  CHECK(rates_of(none) == std::vector<double>{0.8, 0.4, 0.2});
  CHECK_THROWS_WITH(best_rate(none), ContainsSubstring("all 3 from 0.8 down to 0.2 diverge"));
  try {
    best_rate(none);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::diverged);
  }
}

TEST_CASE("the best rate is the vertex of a parabola, near the best of those tried", "[planner]") {
  for (const double best : {0.3, 0.35, 0.42, 0.55})
    CHECK(best_rate(searched(0.1, 8, bowl(best))) == Approx(best).epsilon(0.005));
  // A wall beside the best one moves the vertex by half a step at most.
  const auto wall = [](double rate) { return rate > 0.5 ? 1000 : 2 - rate; };
  CHECK(best_rate(searched(0.1, 8, wall)) == Approx(0.4 / std::sqrt(2)).epsilon(0.01));
  // Without both neighbours there is no parabola.
  CHECK(best_rate(searched(0.1, 3, bowl(1.6))) == 0.4);
  CHECK(best_rate(searched(0.1, 8, [](double) { return 2.0; })) == 0.1);
}

TEST_CASE("the sentence on rates has all of them", "[planner]") {
  RateSearch search = {
      .tried = {{0.1, 1.5}, {0.2, 1.25}, {0.4, {}}}, .steps = 23, .short_rate = 0.2, .rate = 0.2};
  CHECK(sentence_of(search) ==
        "Learning rates tried for 23 steps each: 0.1 (loss 1.5), 0.2 (1.25) and 0.4 (diverged); "
        "0.2 is the best of such short runs.");
  search.rate = 0.1;
  CHECK_THAT(sentence_of(search),
             ContainsSubstring("short runs, and 0.1 counts as that of the whole run."));
  search.tried.pop_back();
  CHECK_THAT(sentence_of(search), ContainsSubstring("a larger train.tune_rates"));
}

TEST_CASE("the loss of a trial is that of its last evaluation", "[planner]") {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& records) {
    std::ofstream(folder.path() + "/metrics.jsonl")
        << R"({"type":"run","schema":1,"name":"probe","ranks":2,"total_steps":8})"
        << "\n"
        << records;
  };
  const std::string first = R"({"type":"epoch","epoch":1,"step":4,"train_loss":1,"test_loss":3})";
  std::uint64_t steps = 0;
  write(first + "\n" + R"({"type":"epoch","epoch":2,"step":8,"train_loss":1,"test_loss":2})" +
        "\n");
  CHECK(final_loss(folder.path(), steps) == Approx(2));
  CHECK(steps == 8);
  write(first + "\n" + R"({"type":"epoch","epoch":2,"step":7,"test_loss":null})" + "\n");
  CHECK_FALSE(final_loss(folder.path(), steps));
  CHECK(steps == 7);
  write("");
  CHECK_THROWS_WITH(final_loss(folder.path(), steps),
                    ContainsSubstring("an evaluation at its end"));
}

}  // namespace eqt::planner
