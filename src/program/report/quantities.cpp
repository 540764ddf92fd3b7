// SPDX-License-Identifier: Apache-2.0
#include "report/quantities.hpp"

#include <algorithm>
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

constexpr Digits kFour{-1, 4};

Quantity quantity_of(const metrics::FigureRow& row) {
  const bool fraction = row.form == metrics::Form::fraction;
  return {row.name,
          fraction ? std::string(row.head) + " [%]" : row.head,
          {row.decimals, row.digits},
          fraction ? 100.0 : 1.0,
          row.main,
          [value = row.value](const Run& run) { return run.outcome.*value; }};
}

/// The figures of records, and what follows from other parts of them, in the order of columns.
std::vector<Quantity> usual_quantities() {
  std::vector<Quantity> all;
  for (const metrics::FigureRow& row : metrics::kFigures) {
    if (row.value == &metrics::Figures::images_per_second)
      all.push_back({"step_seconds", "s per step", kFour, 1, true, step_seconds});
    if (row.value == &metrics::Figures::compression_ratio)
      all.push_back(
          {"sent_bytes_per_rank", "sent per rank [MB]", kFour, 1e-6, true, bytes_per_rank});
    if (row.head != nullptr) all.push_back(quantity_of(row));
  }
  return all;
}

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
  std::vector<Quantity> all = usual_quantities();
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
