// SPDX-License-Identifier: Apache-2.0
#include "metrics/partition_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "metrics/console_text.hpp"

namespace eqt::metrics {
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
