// SPDX-License-Identifier: Apache-2.0
// The classes that each rank trained on: a stacked bar per rank.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "figures/script.hpp"
#include "report/drawing.hpp"

namespace eqt::report {
using figures::bar_rows;
using figures::colours;
using figures::frame;
using figures::height_of_bars;
using figures::height_of_key;
using figures::Key;
using figures::label_text;

namespace {

constexpr std::size_t kMaxRanks = 64;
constexpr std::size_t kMaxKeys = 20;       // classes with a name in the key
constexpr std::size_t kMaxPartitions = 6;  // plots
// Bars of a rank: a pixel or two each. gnuplot reads all columns once for each bar, which takes
// quadratic time.
constexpr std::size_t kMaxBars = 250;

/// "cifar10, skew 0.8, 4 ranks".
std::string partition_of(const Run& run) {
  std::string kind = run.setting("data.partition.kind", "iid");
  if (kind == "skew") kind += fmt::format(" {}", run.setting("data.partition.skew"));
  if (kind == "dirichlet") kind += fmt::format(", alpha {}", run.setting("data.partition.alpha"));
  return fmt::format("{}, {}, {} ranks", run.dataset, kind, run.class_histogram.size());
}

/// The largest share of one class in a rank's samples, over all ranks [%].
double greatest_share(const std::vector<std::vector<std::uint64_t>>& ranks) {
  double greatest = 0;
  for (const auto& classes : ranks) {
    double sum = 0, most = 0;
    for (const std::uint64_t n : classes) {
      sum += static_cast<double>(n);
      most = std::max(most, static_cast<double>(n));
    }
    if (sum > 0) greatest = std::max(greatest, 100 * most / sum);
  }
  return greatest;
}

/// A rank's samples by bar: of one class each, or of neighbouring classes if there are too many.
std::vector<std::uint64_t> bars_of(const std::vector<std::uint64_t>& classes) {
  const std::size_t bars = std::min(classes.size(), kMaxBars);
  std::vector<std::uint64_t> sums(bars);
  for (std::size_t c = 0; c < classes.size(); ++c) sums[c * bars / classes.size()] += classes[c];
  return sums;
}

Drawing drawing_of(const Run& run, const std::string& partition, std::size_t number) {
  const auto& ranks = run.class_histogram;
  const std::size_t classes = ranks.front().size(), bars = std::min(classes, kMaxBars);
  std::vector<std::string> labels;
  std::string data;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    labels.push_back(fmt::format("rank {}", i));
    std::uint64_t sum = 0;
    data += fmt::format("{} 0", i);
    for (const std::uint64_t n : bars_of(ranks[i])) data += fmt::format(" {}", sum += n);
    data += "\n";
    most = std::max(most, sum);
  }
  const std::string title = "Classes by rank: " + partition;
  const Key key = classes > kMaxKeys ? Key::none : Key::above_right;
  std::string script = frame(title, "samples", "", key) +
                       bar_rows(labels, static_cast<double>(most)) + "$d << end\n" + data + "end\n";
  std::vector<std::string> names;
  std::string quoted;
  for (std::size_t c = 0; key != Key::none && c < classes; ++c) {
    names.push_back(c < run.class_names.size() ? run.class_names[c] : fmt::format("class {}", c));
    quoted += (c == 0 ? "" : ", ") + label_text(names.back());
  }
  std::string palette;
  for (const std::string_view one : colours()) palette += fmt::format("{} ", one);
  script += fmt::format(
      "colours = '{}'\n{}"
      "plot for [c=0:{}] $d using c+2:1:c+2:c+3:($1-0.4):($1+0.4) with boxxyerror fs solid "
      "noborder lc rgb word(colours, 1 + c % {}) {}\n",
      palette, key == Key::none ? "" : fmt::format("array names[{}] = [{}]\n", classes, quoted),
      bars - 1, colours().size(), key == Key::none ? "notitle" : "title names[c+1]");
  const int key_height = key == Key::none ? 0 : height_of_key(names);
  return {fmt::format("classes-{}", number), title,
          fmt::format("Samples of {} on each rank; the most frequent class of a rank makes up to "
                      "{:.0f} % of its samples.",
                      bars == classes ? "each class"
                                      : fmt::format("{} classes in {} bars of neighbouring ones",
                                                    classes, bars),
                      greatest_share(ranks)),
          script, height_of_bars(labels) + key_height};
}

}  // namespace

void draw_classes(const std::vector<Group>& groups, Drawings& drawings) {
  std::set<std::string> seen;
  for (const Group& group : groups) {
    const Run& run = group.first();
    if (run.class_histogram.empty() || run.class_histogram.front().empty()) continue;
    const std::string partition = partition_of(run);
    if (!seen.insert(partition).second) continue;
    if (run.class_histogram.size() > kMaxRanks || seen.size() > kMaxPartitions) {
      drawings.left_out.push_back(
          fmt::format("Classes by rank are not drawn for {}: too many.", partition));
      continue;
    }
    drawings.all.push_back(drawing_of(run, partition, seen.size()));
  }
}

}  // namespace eqt::report
