// SPDX-License-Identifier: Apache-2.0
#include "metrics/console_text.hpp"

#include <sstream>

#include "metrics/console.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"

using namespace eqt::metrics;
using namespace eqt::metrics::test;
using Catch::Matchers::ContainsSubstring;

namespace {

PartitionRecord skewed() {
  return {.kind = "skew",
          .skew = 0.8,
          .leftover_samples = 8,
          .class_histogram = {{660, 180, 100, 60}, {0, 0, 0, 500}}};
}

}  // namespace

TEST_CASE("a skewed partition has a heading and a line per rank", "[partition]") {
  const auto lines = partition_lines(skewed());
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], ContainsSubstring("skew 0.8") && ContainsSubstring("8 samples left over"));
  CHECK_THAT(lines[1], ContainsSubstring("rank 0") && ContainsSubstring("1000 samples") &&
                           ContainsSubstring("class 0 66 %, 1 18 %, 2 10 %, others 6 %"));
  CHECK_THAT(lines[2], ContainsSubstring("rank 1") && ContainsSubstring("500 samples") &&
                           ContainsSubstring("class 3 100 %"));
  CHECK_THAT(lines[2], !ContainsSubstring("others"));
}

TEST_CASE("an IID partition and an emulated run have no lines", "[partition]") {
  CHECK(partition_lines({}).empty());
  CHECK(partition_lines({.kind = "iid", .class_histogram = {{1, 2}}}).empty());
}

TEST_CASE("the console uses at most 80 columns, with the time", "[partition]") {
  RunRecord run = run_record();
  run.partition = {.kind = "dirichlet", .alpha = 0.123456789012345678, .leftover_samples = 1234567};
  run.partition.class_histogram.assign(100, std::vector<std::uint64_t>(1000, 1281167));
  std::ostringstream progress, table;
  const auto sink = make_console_sink(
      ProgressStyle::lines, Console{progress, table, false, [] { return std::size_t{80}; },
                                    [] { return 0.0; }, [] { return std::string("12:34:56"); }});
  sink->write(run);
  std::istringstream lines(progress.str());
  std::string line;
  std::getline(lines, line);  // the run's own line
  int count = 0;
  for (; std::getline(lines, line); ++count) CHECK(line.size() <= 80);
  CHECK(count == 1 + 16 + 1);
  CHECK_THAT(progress.str(), ContainsSubstring("84 ranks more"));
}

TEST_CASE("a rank without samples causes no division by zero", "[partition]") {
  const auto lines = partition_lines({.kind = "skew", .skew = 1, .class_histogram = {{0, 0, 0}}});
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], ContainsSubstring("0 samples") && !ContainsSubstring("nan") &&
                           !ContainsSubstring("%"));
}
