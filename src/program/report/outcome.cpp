// SPDX-License-Identifier: Apache-2.0
#include "report/outcome.hpp"

#include <algorithm>
#include <array>

namespace eqt::report {
using figures::finite;

namespace {

using metrics::PhaseSeconds;

constexpr std::array kPhases = {
    &PhaseSeconds::data,   &PhaseSeconds::compute, &PhaseSeconds::encode, &PhaseSeconds::transfer,
    &PhaseSeconds::decode, &PhaseSeconds::update,  &PhaseSeconds::total};

/// Seconds of the mean step over all epochs.
PhaseSeconds step_seconds_of(const Run& run) {
  PhaseSeconds sums;
  for (const Epoch& epoch : run.epochs) sums += epoch.seconds;
  const double steps = run.epochs.empty() ? 0 : static_cast<double>(run.epochs.back().step);
  for (double PhaseSeconds::*phase : kPhases) sums.*phase = steps > 0 ? sums.*phase / steps : 0;
  return sums;
}

/// The figure of the last epoch that has one.
Figure last_of(const Run& run, Figure Epoch::*figure) {
  for (auto epoch = run.epochs.rbegin(); epoch != run.epochs.rend(); ++epoch)
    if ((*epoch).*figure) return (*epoch).*figure;
  return {};
}

/// Mean over epochs with the weights of `weight`.
template <typename Weight>
Figure mean_of(const Run& run, Figure Epoch::*figure, Weight weight) {
  double sum = 0, weights = 0;
  for (const Epoch& epoch : run.epochs) {
    if (!(epoch.*figure)) continue;
    sum += *(epoch.*figure) * weight(epoch);
    weights += weight(epoch);
  }
  return weights > 0 ? finite(sum / weights) : Figure();
}

/// Returns each metric by name, from the last epoch that has it.
std::map<std::string, Figure> last_metrics(const Run& run) {
  std::map<std::string, Figure> last;
  for (const Epoch& epoch : run.epochs)
    for (const auto& [name, value] : epoch.metrics)
      if (value || !last.contains(name)) last[name] = value;
  return last;
}

Figure best_of(const Run& run) {
  Figure best;
  for (const Epoch& epoch : run.epochs)
    if (epoch.test_accuracy) best = std::max(best.value_or(0), *epoch.test_accuracy);
  return best;
}

}  // namespace

Outcome outcome_so_far(const Run& run) {
  Outcome o;
  o.step_seconds = step_seconds_of(run);
  if (run.epochs.empty()) return o;
  o.epochs = run.epochs.back().epoch;
  o.steps = run.epochs.back().step;
  o.train_loss = run.epochs.back().train_loss;
  o.test_accuracy = last_of(run, &Epoch::test_accuracy);
  o.best_test_accuracy = best_of(run);
  o.test_loss = last_of(run, &Epoch::test_loss);
  o.metrics = last_metrics(run);
  o.node_accuracy_mean = last_of(run, &Epoch::node_accuracy_mean);
  o.node_accuracy_min = last_of(run, &Epoch::node_accuracy_min);
  o.consensus_distance = last_of(run, &Epoch::consensus_distance);
  const auto by_time = [](const Epoch& epoch) { return epoch.seconds.total; };
  const auto by_bytes = [](const Epoch& epoch) { return static_cast<double>(epoch.sent_bytes); };
  o.images_per_second = mean_of(run, &Epoch::images_per_second, by_time);
  o.bits_per_value = mean_of(run, &Epoch::bits_per_value, by_bytes);
  const auto alike = [](const Epoch&) { return 1.0; };
  o.quantization_variance = mean_of(run, &Epoch::quantization_variance, alike);
  o.mean_quantization_variance = mean_of(run, &Epoch::mean_quantization_variance, alike);
  for (const Epoch& epoch : run.epochs) o.sent_bytes += epoch.sent_bytes;
  // Numerators of the ratio are summed, and so are its denominators.
  o.compression_ratio = mean_of(run, &Epoch::compression_ratio, by_bytes);
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
  o.train_loss = summary.figure("train_loss");
  o.test_accuracy = summary.figure("test_accuracy");
  o.best_test_accuracy = summary.figure("best_test_accuracy");
  o.wall_seconds = summary.figure("wall_seconds");
  o.images_per_second = summary.figure("images_per_second");
  o.compression_ratio = summary.figure("compression_ratio");
  o.bits_per_value = summary.figure("bits_per_value");
  o.quantization_variance = summary.figure("quantization_variance");
  o.mean_quantization_variance = summary.figure("mean_quantization_variance");
  o.node_accuracy_mean = summary.figure("node_test_accuracy_mean");
  o.node_accuracy_min = summary.figure("node_test_accuracy_min");
  o.consensus_distance = summary.figure("consensus_distance");
  o.peak_rss_mib = summary.figure("peak_rss_mib");
  o.paper_sent_bytes_per_node = summary.figure("paper_sent_bytes_per_node");
  o.clipped_values = summary.figure("clipped_values");
  o.sent_bytes = summary.count("sent_bytes");
  o.parameter_hash = summary.text("parameter_hash");
  return o;
}

}  // namespace eqt::report
