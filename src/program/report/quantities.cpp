// SPDX-License-Identifier: Apache-2.0
#include "report/quantities.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace eqt::report {
using figures::finite;

namespace {

Figure step_seconds(const Run& run) {
  const double seconds = run.outcome.step_seconds.total;
  return seconds > 0 ? finite(seconds) : Figure();
}

/// Adds the direction to the head, where that is not what everyone expects.
std::string head_of(const MainFigure& figure) {
  return figure.head() + (figure.metric.higher_is_better ? "" : ", lower is better");
}

constexpr Digits kLoss{4}, kThree{-1, 3}, kFour{-1, 4};

const std::array kQuantities{
    Quantity{"test_accuracy", "test accuracy [%]", kPercent, 100, true, test_accuracy},
    Quantity{"best_test_accuracy", "best [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.best_test_accuracy; }},
    Quantity{"node_test_accuracy_mean", "nodes' mean [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.node_accuracy_mean; }},
    Quantity{"node_test_accuracy_min", "worst node [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.node_accuracy_min; }},
    Quantity{"train_loss", "train loss", kLoss, 1, true,
             [](const Run& run) { return run.outcome.train_loss; }},
    Quantity{"test_loss", "test loss", kLoss, 1, false,
             [](const Run& run) { return run.outcome.test_loss; }},
    Quantity{"step_seconds", "s per step", kFour, 1, true, step_seconds},
    Quantity{"images_per_second",
             "samples/s",
             {1},
             1,
             false,
             [](const Run& run) { return run.outcome.images_per_second; }},
    Quantity{"sent_bytes_per_rank", "sent per rank [MB]", kFour, 1e-6, true, bytes_per_rank},
    Quantity{"compression_ratio",
             "ratio",
             {2},
             1,
             true,
             [](const Run& run) { return run.outcome.compression_ratio; }},
    Quantity{"bits_per_value",
             "bits/value",
             {3},
             1,
             true,
             [](const Run& run) { return run.outcome.bits_per_value; }},
    Quantity{"quantization_variance", "variance", kThree, 1, true,
             [](const Run& run) { return run.outcome.quantization_variance; }},
    Quantity{"mean_quantization_variance", "mean's variance", kThree, 1, true,
             [](const Run& run) { return run.outcome.mean_quantization_variance; }},
    Quantity{"consensus_distance", "consensus distance", kThree, 1, true,
             [](const Run& run) { return run.outcome.consensus_distance; }},
    Quantity{"wall_seconds",
             "wall [s]",
             {1},
             1,
             false,
             [](const Run& run) { return run.outcome.wall_seconds; }},
    Quantity{"peak_rss_mib",
             "peak [MiB]",
             {0},
             1,
             false,
             [](const Run& run) { return run.outcome.peak_rss_mib; }},
    Quantity{"clipped_values",
             "clipped values",
             {0},
             1,
             false,
             [](const Run& run) { return run.outcome.clipped_values; }},
};

}  // namespace

Figure test_accuracy(const Run& run) { return run.outcome.test_accuracy; }

Figure bytes_per_rank(const Run& run) {
  if (run.epochs.empty() && !run.finished) return {};
  return static_cast<double>(run.outcome.sent_bytes) / run.ranks;
}

metrics::MetricRecord accuracy_metric() {
  return {.name = "accuracy", .title = "accuracy", .fraction = true};
}

std::vector<Quantity> quantities(const std::vector<Group>& groups) {
  std::vector<Quantity> all(kQuantities.begin(), kQuantities.end());
  std::vector<Quantity> more;  // metrics that not all tasks have
  for (const Group& group : groups) {
    for (const Run* run : group.runs) {
      for (const metrics::MetricRecord& metric : run->metrics) {
        const MainFigure figure{metric};
        const bool known =
            metric.name == "loss" ||
            std::ranges::any_of(all, [&](const Quantity& q) { return q.key == figure.key(); }) ||
            std::ranges::find(more, figure.key(), &Quantity::key) != more.end();
        if (known) continue;
        const bool main = &metric == &run->metrics.front();
        more.push_back({figure.key(), head_of(figure), figure.digits(), figure.scale(), main,
                        [figure](const Run& of) { return figure.of(of); }});
      }
    }
  }
  std::stable_partition(more.begin(), more.end(), std::mem_fn(&Quantity::main));
  all.insert(all.begin(), more.begin(), more.end());
  return all;
}

MainFigure main_figure(const std::vector<Group>& groups) {
  const metrics::MetricRecord* first = nullptr;
  for (const Group& group : groups) {
    for (const Run* run : group.runs) {
      if (run->metrics.empty() || run->metrics.front().name == "accuracy")
        return {accuracy_metric()};
      if (first == nullptr) first = &run->metrics.front();
    }
  }
  return {first == nullptr ? accuracy_metric() : *first};
}

Figure metric_of(const Run& run, const std::string& name) {
  if (name == "accuracy") return run.outcome.test_accuracy;
  if (name == "loss") return run.outcome.test_loss;
  const auto found = run.outcome.metrics.find(name);
  return found == run.outcome.metrics.end() ? Figure() : found->second;
}

Figure metric_of(const Epoch& epoch, const std::string& name) {
  if (name == "accuracy") return epoch.test_accuracy;
  if (name == "loss") return epoch.test_loss;
  const auto found = epoch.metrics.find(name);
  return found == epoch.metrics.end() ? Figure() : found->second;
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

Figure MainFigure::of(const Run& run) const { return metric_of(run, metric.name); }

}  // namespace eqt::report
