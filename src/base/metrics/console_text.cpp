// SPDX-License-Identifier: Apache-2.0
#include "metrics/console_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "metrics/figure_text.hpp"

namespace eqt::metrics {
namespace {

constexpr std::size_t kBarCells = 20, kShortBarCells = 8;
constexpr std::size_t kFewColumns = 90;  // below this the bar is short, to have room for the bytes

using Out = std::back_insert_iterator<std::string>;

std::string of_total(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? fmt::format("{}", done) : fmt::format("{}/{}", done, total);
}

/// The parts of a progress text; empty if unknown.
struct Parts {
  explicit Parts(const Progress& p)
      : step("step " + of_total(p.step, p.total_steps)),
        epoch("epoch " + of_total(p.epoch, p.epochs)) {
    if (!std::isnan(p.loss)) loss = fmt::format("loss {:.4f}", p.loss);
    if (p.images_per_second > 0) speed = rate(p.images_per_second) + " samples/s";
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
    speed = rate(pace) + " samples/s";
    eta = "ETA " + duration_text(static_cast<double>(p.samples - p.done) / pace);
  }

  std::string what = "evaluating", epoch, speed, eta;
};

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

/// Shows the first ranks; all are in the records.
static std::string batches_text(const BatchesRecord& r) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t rank = 0; rank < std::min(kShown, r.batch_sizes.size()); ++rank)
    text += fmt::format("{}rank {}: batch {}, {} samples/s, idle {:.0f} %", rank == 0 ? "  " : "; ",
                        rank, r.batch_sizes[rank], rate(r.samples_per_second[rank]),
                        100 * r.idle_share[rank]);
  if (r.batch_sizes.size() > kShown) text += "; ...";
  return text;
}

std::string epoch_text(const EpochRecord& r, std::uint64_t epochs, int ranks) {
  std::string text = fmt::format("epoch {} done", of_total(r.epoch, epochs));
  const Out out(text);
  if (r.train_loss && !std::isnan(*r.train_loss))
    fmt::format_to(out, "  train loss {:.4f}", *r.train_loss);
  if (r.test_accuracy) fmt::format_to(out, "  test accuracy {}", percent(r.test_accuracy));
  for (const MetricRecord& metric : r.metrics)
    if (!has_own_row(metric) && std::isfinite(metric.value))
      fmt::format_to(out, "  test {} {}", metric.title, value_text(metric, metric.value));
  if (r.test_loss) fmt::format_to(out, "  test loss {:.4f}", *r.test_loss);
  if (r.replicas.node_mean()) fmt::format_to(out, "  nodes {}", percent(r.replicas.node_mean()));
  if (r.consensus_distance) fmt::format_to(out, "  consensus {:.3g}", *r.consensus_distance);
  fmt::format_to(out, "  {} samples/s", rate(r.images_per_second));
  if (r.total_sent_bytes > 0)
    fmt::format_to(out, "  sent {}", bytes_text(per_rank(r.total_sent_bytes, ranks)));
  if (r.compression_ratio.value_or(0) > 0)
    fmt::format_to(out, "  ratio {:.2f}", *r.compression_ratio);
  if (!r.batches.empty()) text += batches_text(r.batches);
  return text;
}

namespace {

constexpr std::size_t kColumns = 70;
constexpr std::size_t kMaxRanks = 16;
constexpr std::size_t kMaxClasses = 3;

using Counts = std::vector<std::uint64_t>;

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

/// "class 0 66 %, 1 18 %, 7 2 %, others 14 %"; classes without samples are left out.
std::string classes_text(const Counts& counts, std::uint64_t samples) {
  std::vector<std::size_t> classes(counts.size());
  std::iota(classes.begin(), classes.end(), std::size_t{0});
  std::stable_sort(classes.begin(), classes.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::string text = "class";
  std::uint64_t named = 0;
  for (std::size_t i = 0; i < std::min(kMaxClasses, classes.size()); ++i) {
    const std::uint64_t count = counts[classes[i]];
    if (count == 0) break;
    text += fmt::format("{} {} {:.0f} %", i == 0 ? "" : ",", classes[i], percent(count, samples));
    named += count;
  }
  if (named < samples) text += fmt::format(", others {:.0f} %", percent(samples - named, samples));
  return text;
}

std::string heading(const PartitionRecord& record) {
  std::string text = "partition " + record.kind;
  if (record.skew) text += fmt::format(" {}", *record.skew);
  if (record.alpha) text += fmt::format(", alpha {}", *record.alpha);
  if (record.epoch)
    return text + fmt::format(": epochs {}, test set {}", *record.epoch, *record.test);
  return text + fmt::format(": {} samples left over", record.leftover_samples);
}

}  // namespace

std::vector<std::string> partition_lines(const PartitionRecord& record) {
  if (record.kind.empty() || record.kind == "iid") return {};
  std::vector<std::string> lines = {fitted(heading(record), kColumns)};
  for (std::size_t rank = 0; record.class_histogram.empty() && rank < record.sizes.size(); ++rank)
    if (rank < kMaxRanks)
      lines.push_back(fmt::format("rank {:<3} {:>7} samples", rank, record.sizes[rank]));
  const auto& histogram = record.class_histogram;
  for (std::size_t rank = 0; rank < std::min(kMaxRanks, histogram.size()); ++rank) {
    const Counts& counts = histogram[rank];
    const auto samples = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    lines.push_back(fitted(
        fmt::format("rank {:<3} {:>7} samples  {}", rank, samples, classes_text(counts, samples)),
        kColumns));
  }
  if (histogram.size() > kMaxRanks)
    lines.push_back(fmt::format("and {} ranks more: class_histogram in metrics.jsonl",
                                histogram.size() - kMaxRanks));
  return lines;
}

}  // namespace eqt::metrics
