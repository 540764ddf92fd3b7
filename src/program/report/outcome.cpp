// SPDX-License-Identifier: Apache-2.0
#include "report/outcome.hpp"

#include <algorithm>

namespace eqt::report {
using figures::finite;

namespace {

using metrics::PhaseSeconds;

/// Seconds of the mean step over all epochs.
PhaseSeconds step_seconds_of(const Run& run) {
  PhaseSeconds sums;
  for (const Epoch& epoch : run.epochs) sums += epoch.seconds;
  const double steps = run.epochs.empty() ? 0 : static_cast<double>(run.epochs.back().step);
  for (const metrics::PhaseRow& phase : metrics::kPhases)
    sums.*phase.seconds = steps > 0 ? sums.*phase.seconds / steps : 0;
  return sums;
}

/// Returns the mean over the epochs that have the figure, with the weights of `weight`.
template <typename Weight>
Figure mean_of(const Run& run, Figure metrics::Figures::*figure, Weight weight) {
  double sum = 0, weights = 0;
  for (const Epoch& epoch : run.epochs) {
    if (!(epoch.*figure)) continue;
    sum += *(epoch.*figure) * weight(epoch);
    weights += weight(epoch);
  }
  return weights > 0 ? finite(sum / weights) : Figure();
}

/// The figure of a run without a summary. @pre it has an epoch
Figure over_epochs(const Run& run, const metrics::FigureRow& row) {
  using metrics::OverEpochs;
  switch (row.over_epochs) {
    case OverEpochs::none:
      break;
    case OverEpochs::last:
      return run.epochs.back().*row.value;
    case OverEpochs::last_known:
      for (auto epoch = run.epochs.rbegin(); epoch != run.epochs.rend(); ++epoch)
        if ((*epoch).*row.value) return (*epoch).*row.value;
      break;
    case OverEpochs::most: {
      Figure most;
      for (const Epoch& epoch : run.epochs) most = std::max(most, epoch.*row.of);  // none is least
      return most;
    }
    case OverEpochs::mean:
      return mean_of(run, row.value, [](const Epoch&) { return 1.0; });
    case OverEpochs::by_seconds:
      return mean_of(run, row.value, [](const Epoch& epoch) { return epoch.seconds.total; });
    case OverEpochs::by_bytes:
      return mean_of(run, row.value,
                     [](const Epoch& epoch) { return static_cast<double>(epoch.sent_bytes); });
  }
  return {};
}

/// Returns each metric by name, from the last epoch that has it.
std::map<std::string, Figure> last_metrics(const Run& run) {
  std::map<std::string, Figure> last;
  for (const Epoch& epoch : run.epochs)
    for (const auto& [name, value] : epoch.metrics)
      if (value || !last.contains(name)) last[name] = value;
  return last;
}

}  // namespace

Outcome outcome_so_far(const Run& run) {
  Outcome o;
  o.step_seconds = step_seconds_of(run);
  if (run.epochs.empty()) return o;
  o.epochs = run.epochs.back().epoch;
  o.steps = run.epochs.back().step;
  for (const metrics::FigureRow& row : metrics::kFigures) o.*row.value = over_epochs(run, row);
  o.metrics = last_metrics(run);
  for (const Epoch& epoch : run.epochs) o.sent_bytes += epoch.sent_bytes;
  return o;
}

std::map<std::string, Figure> metrics_of(const Members& record, const Run& run) {
  std::map<std::string, Figure> metrics;
  for (const metrics::MetricRecord& metric : run.metrics)
    if (metric.name != "accuracy" && metric.name != "loss")
      metrics[metric.name] = record.figure(("test_" + metric.name).c_str());
  return metrics;
}

Outcome outcome_of(const Members& summary, const Run& run) {
  Outcome o = outcome_so_far(run);
  o.metrics = metrics_of(summary, run);
  o.epochs = summary.count("epochs");
  o.steps = summary.count("steps");
  for (const metrics::FigureRow& row : metrics::kFigures)
    if (metrics::is_in(row, metrics::Records::summary)) o.*row.value = summary.figure(row.name);
  o.sent_bytes = summary.count("sent_bytes");
  o.parameter_hash = summary.text("parameter_hash");
  return o;
}

}  // namespace eqt::report
