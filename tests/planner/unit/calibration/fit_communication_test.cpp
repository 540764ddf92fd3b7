// SPDX-License-Identifier: Apache-2.0
// Costs of messages from the times of means: known costs come back.

#include "planner/calibration/fit_communication.hpp"

#include "support/catch.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

/// float32, at 1 ns a value in both directions.
CodecSpeeds speeds() {
  return {{{.compressor = "none", .encode_gb_s = 4, .decode_add_gb_s = 4}}, "test"};
}

/// Two ranks of one host: dense adds v values in shared memory, which counts as a message of v with
/// a frame of 8 bytes; allgather sends them with 44 bytes of frame and segment, encodes v and
/// decodes 2 v. Up to 16384 values are one message.
CollectiveLine line(bool dense, double values, const collective::CommunicationCosts& costs) {
  const double bytes = 4 * values + (dense ? 8 : 44);
  const double sending = 3e-9 * values + 2 * costs.message + 2 * bytes * costs.byte;
  return {.collective = dense ? "dense" : "allgather",
          .compressor = "none",
          .values = static_cast<std::uint64_t>(values),
          .seconds = dense ? costs.add * values : sending,
          .wire_bytes = bytes,
          .on_host_bytes = bytes};
}

std::vector<CollectiveLine> lines(const collective::CommunicationCosts& costs) {
  std::vector<CollectiveLine> result;
  for (const double values : {2000.0, 4000.0, 16000.0})
    for (const bool dense : {true, false}) result.push_back(line(dense, values, costs));
  return result;
}

}  // namespace

TEST_CASE("least squares: a known solution, and none below zero", "[planner]") {
  const std::vector<Equation> exact = {
      {{1, 0, 2}, 7}, {{0, 1, 1}, 5}, {{3, 1, 0}, 5}, {{1, 1, 1}, 6}};  // 1, 2, 3
  const std::vector<double> weights = {1, 2, 3, 4};
  const auto solution = least_squares(exact, weights);
  REQUIRE(solution);
  CHECK((*solution)[0] == Approx(1));
  CHECK((*solution)[1] == Approx(2));
  CHECK((*solution)[2] == Approx(3));
  // Without the bound x would be -1, y 2, z 0.
  const std::vector<Equation> negative = {{{1, 0, 0}, -1}, {{0, 1, 0}, 2}, {{0, 0, 1}, 0}};
  const auto bounded = least_squares(negative, std::vector<double>(3, 1.0));
  REQUIRE(bounded);
  CHECK((*bounded)[0] == 0);
  CHECK((*bounded)[1] == Approx(2));
  CHECK((*bounded)[2] == 0);
  // Two unknowns that always occur together cannot be told apart.
  const std::vector<Equation> same = {{{1, 1, 0}, 1}, {{2, 2, 1}, 2}, {{3, 3, 5}, 3}};
  CHECK_FALSE(least_squares(same, std::vector<double>(3, 1.0)));
  CHECK_FALSE(least_squares({}, {}));
}

TEST_CASE("times that were made with known costs give these costs", "[planner]") {
  const collective::CommunicationCosts costs = {.add = 3e-10, .message = 2e-5, .byte = 5e-10};
  std::vector<std::string> notes;
  const auto fit = fit_communication(lines(costs), speeds(), notes);
  REQUIRE(fit);
  CHECK(fit->lines == 6);
  CHECK(fit->costs.add == Approx(costs.add).epsilon(0.01));
  CHECK(fit->costs.message == Approx(costs.message).epsilon(0.01));
  CHECK(fit->costs.byte == Approx(costs.byte).epsilon(0.01));
  CHECK(fit->median_error < 0.01);
  CHECK(notes.empty());
}

TEST_CASE("lines that say nothing of these costs are left out", "[planner]") {
  const collective::CommunicationCosts costs = {.add = 3e-10, .message = 2e-5, .byte = 5e-10};
  auto all = lines(costs);
  all.push_back(all[0]);
  all.back().on_host_bytes = 0;
  all.push_back(all[1]);
  all.back().compressor = "qsgd";
  all.back().wire_bytes = 1116;  // 4 bits, as by default
  all.push_back(all[1]);
  all.back().wire_bytes = all.back().on_host_bytes *= 2;
  all.push_back(all[1]);
  all.back().collective = "mpi-allreduce";
  all.push_back(all[1]);
  all.back().compressor = "nobody's";
  std::vector<std::string> notes;
  const auto fit = fit_communication(all, speeds(), notes);
  REQUIRE(fit);
  CHECK(fit->lines == 6);
  REQUIRE(notes.size() == 5);
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  CHECK_THAT(text, ContainsSubstring("other hosts") && ContainsSubstring("speeds are not in") &&
                       ContainsSubstring("other settings") &&
                       ContainsSubstring("rounds of their own") &&
                       ContainsSubstring("does not have"));
  // In shared memory nothing is sent.
  notes.clear();
  std::erase_if(all, [](const CollectiveLine& l) { return l.collective != "dense"; });
  CHECK_FALSE(fit_communication(all, speeds(), notes));
  CHECK_THAT(notes.back(), ContainsSubstring("do not determine"));
}

}  // namespace eqt::planner
