// SPDX-License-Identifier: Apache-2.0
// The table of results at the end of a run.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/console_text.hpp"
#include "metrics/figure_text.hpp"

namespace eqt::metrics {
namespace {

constexpr std::size_t kTableColumns = 80, kFewestTableColumns = 40;
constexpr std::size_t kLabelColumns = 19;

constexpr const char *kSentPerRank = "sent per rank", *kTrainLoss = "train loss";

using Out = std::back_insert_iterator<std::string>;

struct Row {
  std::string label;
  std::string value;
};

std::string identical_text(const std::optional<bool>& identical) {
  if (!identical) return "not compared";
  return *identical ? "identical on all ranks" : "DIFFERENT: ranks have drifted apart";
}

std::string direction_text(const MetricRecord& metric) {
  return metric.higher_is_better ? "" : ", lower is better";
}

/// The figures of the task: accuracies as ever, then the other metrics, the best of the main one.
std::vector<Row> test_rows(const Summary& s) {
  const std::string averaged = s.replicas.averaged ? ", averaged model" : "";
  std::vector<Row> rows;
  const auto is_accuracy = [](const MetricRecord& metric) { return metric.name == "accuracy"; };
  if (s.metrics.empty() || std::ranges::any_of(s.metrics, is_accuracy)) {
    rows.push_back({"test accuracy", percent(s.test_accuracy) + averaged});
    rows.push_back({"best test accuracy", percent(s.best_test_accuracy)});
  }
  for (const MetricRecord& metric : s.metrics) {
    if (is_accuracy(metric)) continue;
    rows.push_back({"test " + metric.title,
                    value_text(metric, metric.value) + averaged + direction_text(metric)});
    if (&metric == &s.metrics.front())
      rows.push_back({"best test " + metric.title, value_text(metric, s.best_metric)});
  }
  return rows;
}

/// Returns rows on ranks with different models: how good each one is and how far apart they are.
std::vector<Row> replicas_rows(const Summary& s) {
  const ReplicasRecord& r = s.replicas;
  std::vector<Row> rows;
  if (!r.node_test_accuracy.empty()) {
    rows.push_back(
        {"node test accuracy", fmt::format("mean {}, from {} to {}", percent(r.node_mean()),
                                           percent(r.node_min()), percent(r.node_max()))});
  }
  if (!r.node_test_metric.empty() && !s.metrics.empty()) {
    const MetricRecord& main = s.metrics.front();
    const auto [least, most] = std::ranges::minmax(r.node_test_metric);
    rows.push_back({"node test " + main.title,
                    fmt::format("from {} to {}", value_text(main, least), value_text(main, most))});
  }
  if (s.consensus_distance) {
    rows.push_back({"consensus distance",
                    fmt::format("{:.3g}, {:.3g} of the mean model's norm", *s.consensus_distance,
                                s.consensus_distance_relative.value_or(std::nan("")))});
  }
  return rows;
}

/// The bytes of the nodes that sent most and least to their neighbours.
std::vector<Row> node_bytes_rows(const Summary& s) {
  const std::vector<std::uint64_t> nodes = s.sent_bytes_by_node();
  if (nodes.empty()) return {};
  const auto [least, most] = std::ranges::minmax(nodes);
  std::string text = bytes_text(most);
  if (bytes_text(least) != text) text = bytes_text(least) + " to " + text;
  if (s.paper_sent_bytes_per_node) {
    const auto bytes = static_cast<std::uint64_t>(*s.paper_sent_bytes_per_node);
    text += fmt::format(" ({} by published counting)", bytes_text(bytes));
  }
  return {{"range over ranks", text}};
}

void insert_behind(std::string_view label, const std::vector<Row>& more, std::vector<Row>& rows) {
  const auto at = std::ranges::find(rows, label, &Row::label);
  rows.insert(std::next(at), more.begin(), more.end());
}

/// The figures whose rows say how the console writes them.
std::vector<Row> figure_rows(const Summary& s) {
  std::vector<Row> rows;
  for (const FigureRow& row : kFigures) {
    if (row.console == nullptr) continue;
    const Figures::Value& value = s.*row.value;
    const bool shown = known(value) && !(row.positive && *value <= 0);
    rows.push_back(
        {row.console, shown ? fmt::format(fmt::runtime(row.console_form), *value) : "-"});
  }
  return rows;
}

std::vector<Row> result_rows(const RunRecord& run, const Summary& s) {
  std::vector<Row> rows = {
      {"run", s.name.empty() ? "-" : s.name},
      {"model", fmt::format("{}, {} parameters, on {}", run.model, s.parameters, run.dataset)},
      {"ranks", fmt::format("{}, {} threads each", s.ranks, run.threads_per_rank)},
      {"compressor", s.compressor.empty() ? "-" : s.compressor},
      {"synchronization", fmt::format("{}, {}", s.algorithm, s.collective)},
      {"epochs, steps", fmt::format("{}, {}", s.epochs, s.steps)},
      {kTrainLoss, known(s.train_loss) ? fmt::format("{:.4f}", *s.train_loss) : "-"},
      {"samples/s", rate(s.images_per_second)},
      {kSentPerRank,
       fmt::format("{} (float32 would send {})", bytes_text(per_rank(s.sent_bytes, s.ranks)),
                   bytes_text(per_rank(s.dense_bytes, s.ranks)))},
      {"replicas", identical_text(s.replicas_identical)},
      {"parameter hash", s.parameter_hash.empty() ? "-" : s.parameter_hash},
      {"peak memory", fmt::format("{:.0f} MiB per rank", s.peak_rss_mib.value_or(0))},
      {"wall time", duration_text(s.wall_seconds.value_or(0))},
  };
  insert_behind(kSentPerRank, figure_rows(s), rows);
  if (run.int8)
    insert_behind(
        "peak memory",
        {{"8-bit operands",
          fmt::format("{}, {} a step, {} kept for backward", run.int8->kernels,
                      bytes_text(run.int8->arena_bytes), bytes_text(run.int8->saved_bytes))}},
        rows);
  if (s.clipped_values.value_or(0) > 0)
    rows.push_back({"clipped values", fmt::format("{}", *s.clipped_values)});
  if (s.skipped_pictures.value_or(0) > 0)
    rows.push_back({"skipped pictures", fmt::format("{}, broken", *s.skipped_pictures)});
  std::vector<Row> tests = test_rows(s);
  const std::vector<Row> replicas = replicas_rows(s);
  tests.insert(tests.end(), replicas.begin(), replicas.end());
  insert_behind(kTrainLoss, tests, rows);
  return rows;
}

constexpr std::size_t kPhaseColumns = 9, kPhaseLabelColumns = 17;

void append_seconds(const PhaseSeconds& s, std::size_t columns_at_hand, Out out) {
  // All phases need 17 + 7 x 9 columns; with fewer columns there are fewer phases per line.
  const std::size_t a_line = std::max<std::size_t>(
      1, std::min(kPhases.size(), (columns_at_hand - kPhaseLabelColumns) / kPhaseColumns));
  for (std::size_t first = 0; first < kPhases.size(); first += a_line) {
    const auto some = std::span(kPhases).subspan(first, std::min(a_line, kPhases.size() - first));
    fmt::format_to(out, "{:<{}}", first == 0 ? "seconds per epoch" : "", kPhaseLabelColumns);
    for (const PhaseRow& phase : some) fmt::format_to(out, "{:>{}}", phase.name, kPhaseColumns);
    fmt::format_to(out, "\n{:{}}", "", kPhaseLabelColumns);
    for (const PhaseRow& phase : some) {
      const double seconds = s.*phase.seconds;
      fmt::format_to(out, "{:>{}}", fmt::format("{:.{}f}", seconds, seconds < 1e4 ? 2 : 0),
                     kPhaseColumns);
    }
    fmt::format_to(out, "\n");
  }
}

}  // namespace

std::string summary_table(const RunRecord& run, const Summary& summary, std::size_t columns) {
  columns = std::clamp(columns, kFewestTableColumns, kTableColumns);
  std::string table;
  const Out out(table);
  std::vector<Row> rows = result_rows(run, summary);
  insert_behind(kSentPerRank, node_bytes_rows(summary), rows);
  if (run.emulated) {
    rows.insert(rows.begin(), {"EMULATED", "no network was run: ranks waited and drew gradients"});
  }
  if (run.simulated) {
    rows.insert(rows.begin(),
                {"SIMULATED", "one process computed for all ranks: seconds are its own"});
  }
  const std::size_t room = columns - kLabelColumns;
  for (const Row& row : rows) {
    std::string_view label = row.label;
    for (const std::string& line : wrapped(plain(row.value), room, 0)) {
      fmt::format_to(out, "{:<{}}{}\n", label, kLabelColumns, fitted(line, room));
      label = "";
    }
  }
  append_seconds(summary.epoch_seconds, columns, out);
  return table;
}

}  // namespace eqt::metrics
