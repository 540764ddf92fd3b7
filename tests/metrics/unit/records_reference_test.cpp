// SPDX-License-Identifier: Apache-2.0
// docs/records.md names every key of every record; its lists of figures and phases are made from
// their rows.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "metrics/record_json.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"

namespace eqt::metrics {
namespace {

constexpr std::size_t kColumns = 120;

/// A point of a list, in lines of at most kColumns.
std::string point(const std::string& text) {
  std::string lines, line = "*";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return lines + line + "\n";
}

std::string reference() {
  std::string text;
  for (const FigureRow& row : kFigures) {
    const std::string unit = row.form == Form::fraction ? "0 to 1" : row.unit;
    text += point(fmt::format("`{}` ({}{}{}): {}.", row.name,
                              row.in == Records::both    ? "epoch, summary"
                              : row.in == Records::epoch ? "epoch"
                                                         : "summary",
                              unit.empty() ? "" : "; ", unit, row.meaning));
  }
  text += "\nThe seconds of a step by phase:\n\n";
  for (const PhaseRow& phase : kPhases)
    text += point(fmt::format("`{}`: {}.", phase.name, phase.meaning));
  return text;
}

std::string document() {
  std::ifstream file(std::filesystem::path(EQT_SOURCE_DIR) / "docs" / "records.md");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All keys, also of objects inside, but of those whose keys are names of tensors or settings.
void add_keys(const Json& json, std::set<std::string>& keys) {
  if (json.is_array() && !json.empty()) return add_keys(json.front(), keys);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    keys.insert(key);
    if (key != "config" && key != "gradient_noise" && key != "grade") add_keys(value, keys);
  }
}

/// Keys of records of which no part is missing.
std::set<std::string> all_keys() {
  std::set<std::string> keys;
  RunRecord run = test::run_record();
  run.partition = {.kind = "local",
                   .skew = 0.5,
                   .alpha = 0.5,
                   .reshuffle = true,
                   .epoch = "largest",
                   .test = "common",
                   .classes = {"a"},
                   .sizes = {1},
                   .rank_skew = {0.5},
                   .class_histogram = {{1}}};
  run.plugins = {{.name = "a", .file = "b", .hash = 1}};
  run.metrics = test::regression_metrics();
  run.int8 = {.kernels = "a", .arena_bytes = 1, .saved_bytes = 1};
  run.grades = {.menu = {"a"}, .tensors = {"b"}, .start = 0};
  run.emulated_link = run.laboratory = "a";
  add_keys(json_of(run), keys);
  add_keys(json_of(test::step_record(1)), keys);
  add_keys(json_of(NoteRecord{.step = 1, .text = "a", .back_to = 1}), keys);
  add_keys(json_of(DecisionRecord{.step = 1, .kind = "a", .values = {1}, .why = "b"}), keys);
  add_keys(json_of(NoiseRecord{.slices = {{.name = "a"}}}), keys);
  add_keys(json_of(ProfileRecord{.slices = {{.name = "a"}}}), keys);
  add_keys(json_of(TimelineRecord{.step = 1, .rank = 0, .spans = {}}), keys);
  EpochRecord epoch = test::epoch_record();
  epoch.rank_seconds = {test::phase_seconds(1)};
  epoch.batches = {.batch_sizes = {1}, .samples_per_second = {1}, .idle_share = {0}};
  test::make_replicas_differ(epoch);
  add_keys(json_of(epoch), keys);
  Summary summary = test::summary();
  summary.skipped_pictures = summary.clipped_values = 1;
  summary.sent_bytes_by_edge = {{0, 1, 1}};
  add_keys(json_of(summary), keys);
  return keys;
}

}  // namespace

TEST_CASE("docs/records.md has the figures and phases of this version", "[metrics]") {
  const bool holds = document().find(reference()) != std::string::npos;
  INFO("replace its tables by the output of: metrics_unit '[print-reference]'");
  CHECK(holds);
}

TEST_CASE("docs/records.md names every key of every record", "[metrics]") {
  const std::string text = document();
  for (const std::string& key : all_keys()) {
    INFO(key);
    CHECK(text.find('`' + key + '`') != std::string::npos);
  }
}

TEST_CASE("print the figures and phases", "[.][print-reference]") { std::cout << reference(); }

}  // namespace eqt::metrics
