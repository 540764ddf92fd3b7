// SPDX-License-Identifier: Apache-2.0
#include "metrics/console_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace eqt::metrics {
namespace {

constexpr std::size_t kTableColumns = 80, kFewestTableColumns = 40;
constexpr std::size_t kLabelColumns = 19;
constexpr std::size_t kBarCells = 20, kShortBarCells = 10;
constexpr std::size_t kFewColumns = 90;  // below this the bar is short, to have room for the bytes

constexpr const char* kSentPerRank = "sent per rank";

using Out = std::back_insert_iterator<std::string>;

std::string percent(const std::optional<double>& fraction) {
  return fraction && std::isfinite(*fraction) ? fmt::format("{:.2f} %", *fraction * 100) : "-";
}

std::uint64_t per_rank(std::uint64_t bytes, int ranks) {
  return bytes / static_cast<std::uint64_t>(std::max(ranks, 1));
}

std::string or_dash(double x, const char* unit) {
  if (!std::isfinite(x) || x <= 0) return "-";
  return fmt::format("{:.2f}{}", x, unit);
}

/// At least three digits for any size: 0.0123, 1.23, 812.
std::string rate(double x) {
  if (!std::isfinite(x)) return "-";
  return x >= 100 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x);
}

std::string of_total(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? fmt::format("{}", done) : fmt::format("{}/{}", done, total);
}

/// The parts of a progress text; empty if unknown.
struct Parts {
  explicit Parts(const Progress& p)
      : step("step " + of_total(p.step, p.total_steps)),
        epoch("epoch " + of_total(p.epoch, p.epochs)) {
    if (!std::isnan(p.loss)) loss = fmt::format("loss {:.4f}", p.loss);
    if (p.images_per_second > 0) speed = rate(p.images_per_second) + " images/s";
    if (p.sent_bytes > 0) sent = "sent " + bytes_text(p.sent_bytes);
    if (p.compression_ratio > 0) ratio = fmt::format("ratio {:.2f}", p.compression_ratio);
    if (p.remaining_seconds >= 0) eta = "ETA " + duration_text(p.remaining_seconds);
  }

  std::string step, epoch, loss, speed, sent, ratio, eta;
};

/// The parts with two spaces between them: as many of the first ones as fit into `columns`.
std::string joined(std::initializer_list<std::string> parts, std::size_t columns) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!text.empty() && text.size() + 2 + part.size() > columns) break;
    text += (text.empty() ? "" : "  ") + part;
  }
  return text;
}

/// "[######--------------] 30 %", with half as many cells if there are few columns.
std::string bar_of(std::uint64_t part, std::uint64_t whole, std::size_t columns) {
  const double done =
      whole == 0 ? 0.0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  const std::size_t all = columns < kFewColumns ? kShortBarCells : kBarCells;
  const auto cells = static_cast<std::size_t>(done * static_cast<double>(all));
  return fmt::format("[{}{}] {:3.0f} %", std::string(cells, '#'), std::string(all - cells, '-'),
                     std::floor(done * 100));
}

/// The parts of an evaluation's text; empty if unknown.
struct EvaluationParts {
  EvaluationParts(const EvaluationProgress& p, std::uint64_t epochs, double taken)
      : epoch("epoch " + of_total(p.epoch, epochs)) {
    if (!(taken > 0) || p.samples < p.done) return;
    const double pace = static_cast<double>(p.done) / taken;
    speed = rate(pace) + " images/s";
    eta = "ETA " + duration_text(static_cast<double>(p.samples - p.done) / pace);
  }

  std::string what = "evaluating", epoch, speed, eta;
};

struct Row {
  std::string label;
  std::string value;
};

std::string identical_text(const std::optional<bool>& identical) {
  if (!identical) return "not compared";
  return *identical ? "identical on all ranks" : "DIFFERENT: ranks have drifted apart";
}

/// For ranks with different models: how good each one is and how far apart they are.
std::vector<Row> replicas_rows(const ReplicasRecord& r) {
  std::vector<Row> rows;
  if (!r.node_test_accuracy.empty()) {
    rows.push_back(
        {"node test accuracy", fmt::format("mean {}, from {} to {}", percent(r.node_mean()),
                                           percent(r.node_min()), percent(r.node_max()))});
  }
  if (r.consensus_distance) {
    rows.push_back({"consensus distance",
                    fmt::format("{:.3g}, {:.3g} of the mean model's norm", *r.consensus_distance,
                                r.consensus_distance_relative.value_or(std::nan("")))});
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
    text += fmt::format(" ({} by published counting)", bytes_text(*s.paper_sent_bytes_per_node));
  }
  return {{"range over ranks", text}};
}

void insert_behind(std::string_view label, const std::vector<Row>& more, std::vector<Row>& rows) {
  const auto at = std::ranges::find(rows, label, &Row::label);
  rows.insert(std::next(at), more.begin(), more.end());
}

std::string variance_text(const std::optional<double>& variance) {
  return variance ? fmt::format("{:.4g} (relative variance)", *variance) : std::string("-");
}

std::vector<Row> result_rows(const RunRecord& run, const Summary& s) {
  return {
      {"run", s.name.empty() ? "-" : s.name},
      {"model", fmt::format("{}, {} parameters, on {}", run.model, s.parameters, run.dataset)},
      {"ranks", fmt::format("{}, {} threads each", s.ranks, run.threads_per_rank)},
      {"compressor", s.compressor.empty() ? "-" : s.compressor},
      {"synchronization", fmt::format("{}, {}", s.algorithm, s.collective)},
      {"epochs, steps", fmt::format("{}, {}", s.epochs, s.steps)},
      {"train loss", std::isnan(s.train_loss) ? "-" : fmt::format("{:.4f}", s.train_loss)},
      {"test accuracy", percent(s.test_accuracy) + (s.replicas.averaged ? ", averaged model" : "")},
      {"best test accuracy", percent(s.best_test_accuracy)},
      {"images/s", rate(s.images_per_second)},
      {kSentPerRank,
       fmt::format("{} (float32 would send {})", bytes_text(per_rank(s.sent_bytes, s.ranks)),
                   bytes_text(per_rank(s.dense_bytes, s.ranks)))},
      {"compression ratio", or_dash(s.compression_ratio, "")},
      {"bits per value", or_dash(s.bits_per_value, "")},
      {"quantization error", variance_text(s.quantization_variance)},
      {"error of the mean", variance_text(s.mean_quantization_variance)},
      {"replicas", identical_text(s.replicas_identical)},
      {"parameter hash", s.parameter_hash.empty() ? "-" : s.parameter_hash},
      {"peak memory", fmt::format("{:.0f} MiB per rank", s.peak_rss_mib)},
      {"wall time", duration_text(s.wall_seconds)},
  };
}

constexpr std::size_t kPhaseColumns = 9, kPhaseLabelColumns = 17;

void append_seconds(const PhaseSeconds& s, std::size_t columns_at_hand, Out out) {
  struct Column {
    const char* name;
    double seconds;
  };
  const std::array<Column, 7> columns = {{{"data", s.data},
                                          {"compute", s.compute},
                                          {"encode", s.encode},
                                          {"transfer", s.transfer},
                                          {"decode", s.decode},
                                          {"update", s.update},
                                          {"total", s.total}}};
  // All phases need 17 + 7 x 9 columns; with fewer columns there are fewer phases per line.
  const std::size_t a_line = std::max<std::size_t>(
      1, std::min(columns.size(), (columns_at_hand - kPhaseLabelColumns) / kPhaseColumns));
  for (std::size_t first = 0; first < columns.size(); first += a_line) {
    const auto some = std::span(columns).subspan(first, std::min(a_line, columns.size() - first));
    fmt::format_to(out, "{:<{}}", first == 0 ? "seconds per epoch" : "", kPhaseLabelColumns);
    for (const Column& column : some) fmt::format_to(out, "{:>{}}", column.name, kPhaseColumns);
    fmt::format_to(out, "\n{:{}}", "", kPhaseLabelColumns);
    for (const Column& column : some)
      fmt::format_to(out, "{:>{}}",
                     fmt::format("{:.{}f}", column.seconds, column.seconds < 1e4 ? 2 : 0),
                     kPhaseColumns);
    fmt::format_to(out, "\n");
  }
}

}  // namespace

namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }

/// Number of characters of UTF-8 text.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

}  // namespace

std::string plain(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    const bool two_bytes = c == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 to U+009F
    shown += c < ' ' || c == 0x7F || two_bytes ? '?' : text[i];
    if (two_bytes) ++i;
  }
  return shown;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  if (characters(text) <= columns) return {std::string(text)};
  std::vector<std::string> lines = {""};
  std::size_t room = columns;  // of the current line
  while (!text.empty()) {
    const std::size_t gap = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', gap), text.size());
    const std::size_t width = gap + characters(text.substr(gap, end - gap));
    if (width > room && !lines.back().empty() && gap > 0) {
      lines.emplace_back(indent, ' ');
      lines.back() += text.substr(gap, end - gap);
      room = columns - std::min(columns, indent + width - gap);
    } else {
      lines.back() += text.substr(0, end);
      room -= std::min(room, width);
    }
    text.remove_prefix(end);
  }
  return lines;
}

std::string fitted(std::string_view text, std::size_t columns) {
  if (characters(text) <= columns) return std::string(text);
  const std::size_t dots = std::min<std::size_t>(3, columns);
  std::size_t kept = 0, end = 0;
  for (; end < text.size(); ++end)
    if (starts_character(text[end]) && ++kept > columns - dots) break;
  return std::string(text.substr(0, end)) + std::string(dots, '.');
}

std::string duration_text(double seconds) {
  // A longer time is not useful, and would overflow the integer below.
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0) || seconds > kLongest) return "-";
  const auto whole = static_cast<std::uint64_t>(std::ceil(seconds));
  const std::uint64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  // 999.5 and more would be shown as 1e+03.
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, units[unit]);
}

std::string progress_text(const Progress& p) {
  const Parts parts(p);
  return joined(
      {parts.step, parts.epoch, parts.loss, parts.speed, parts.sent, parts.ratio, parts.eta},
      std::string::npos);
}

std::string bar_text(const Progress& p, std::size_t columns) {
  const std::string bar = bar_of(p.step, p.total_steps, columns);
  const Parts parts(p);
  return fitted(joined({bar, parts.epoch, parts.loss, parts.speed, parts.eta, parts.sent,
                        parts.ratio, parts.step},
                       columns),
                columns);
}

std::string evaluation_text(const EvaluationProgress& p, std::uint64_t epochs, double taken) {
  const EvaluationParts parts(p, epochs, taken);
  const double share =
      p.samples == 0 ? 0.0 : static_cast<double>(p.done) / static_cast<double>(p.samples);
  return joined({parts.what, parts.epoch, fmt::format("{:.0f} %", std::floor(100 * share)),
                 parts.speed, parts.eta},
                std::string::npos);
}

std::string evaluation_bar_text(const EvaluationProgress& p, std::uint64_t epochs, double taken,
                                std::size_t columns) {
  const EvaluationParts parts(p, epochs, taken);
  return fitted(
      joined({bar_of(p.done, p.samples, columns), parts.what, parts.epoch, parts.speed, parts.eta},
             columns),
      columns);
}

std::string epoch_text(const EpochRecord& r, std::uint64_t epochs, int ranks) {
  std::string text = fmt::format("epoch {} done", of_total(r.epoch, epochs));
  const Out out(text);
  if (!std::isnan(r.train_loss)) fmt::format_to(out, "  train loss {:.4f}", r.train_loss);
  if (r.test_accuracy) fmt::format_to(out, "  test accuracy {}", percent(r.test_accuracy));
  if (r.test_loss) fmt::format_to(out, "  test loss {:.4f}", *r.test_loss);
  if (r.replicas.node_mean()) fmt::format_to(out, "  nodes {}", percent(r.replicas.node_mean()));
  if (r.replicas.consensus_distance)
    fmt::format_to(out, "  consensus {:.3g}", *r.replicas.consensus_distance);
  fmt::format_to(out, "  {} images/s", rate(r.images_per_second));
  if (r.total_sent_bytes > 0)
    fmt::format_to(out, "  sent {}", bytes_text(per_rank(r.total_sent_bytes, ranks)));
  if (r.compression_ratio > 0) fmt::format_to(out, "  ratio {:.2f}", r.compression_ratio);
  return text;
}

std::string summary_table(const RunRecord& run, const Summary& summary, std::size_t columns) {
  columns = std::clamp(columns, kFewestTableColumns, kTableColumns);
  std::string table;
  const Out out(table);
  std::vector<Row> rows = result_rows(run, summary);
  insert_behind("best test accuracy", replicas_rows(summary.replicas), rows);
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
