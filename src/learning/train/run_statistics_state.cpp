// SPDX-License-Identifier: Apache-2.0
// The part of the statistics that checkpoints save.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "train/run_statistics.hpp"

namespace eqt::train {
namespace {

std::array<double, 7> in_order(const metrics::PhaseSeconds& s) {
  return {s.data, s.compute, s.encode, s.transfer, s.decode, s.update, s.total};
}

metrics::PhaseSeconds from_order(const std::array<double, 7>& all) {
  return {.data = all[0],
          .compute = all[1],
          .encode = all[2],
          .transfer = all[3],
          .decode = all[4],
          .update = all[5],
          .total = all[6]};
}

void visit_seconds(StateVisitor& visitor, Across across, metrics::PhaseSeconds& s) {
  std::array<double, 7> all = in_order(s);
  visitor.doubles("seconds", all, across);
  s = from_order(all);
}

/// NaN means that a value is missing.
void visit_optional(StateVisitor& visitor, std::string_view name, std::optional<double>& value) {
  double shown = value.value_or(std::numeric_limits<double>::quiet_NaN());
  visitor.real(name, shown, Across::same);
  value.reset();
  if (!std::isnan(shown)) value = shown;
}

}  // namespace

void RunStatistics::Totals::visit_state(StateVisitor& visitor) {
  std::array<double, 8> all = {static_cast<double>(steps),
                               mean_steps,
                               loss,
                               sent_bytes,
                               received_bytes,
                               dense_bytes,
                               encoded_bytes,
                               encoded_values};
  std::array<double, 2> measured = {variance, variance_count};
  visitor.doubles("totals", all, Across::same);
  std::array<double, 2> of_means = {mean_variance, mean_variance_count};
  visitor.doubles("variance", measured, Across::sum);
  visitor.doubles("variance of means", of_means, Across::same);
  visit_seconds(visitor, Across::own, seconds);
  steps = static_cast<StepId>(all[0]);
  mean_steps = all[1];
  loss = all[2];
  sent_bytes = all[3];
  received_bytes = all[4];
  dense_bytes = all[5];
  encoded_bytes = all[6];
  encoded_values = all[7];
  variance = measured[0];
  variance_count = measured[1];
  mean_variance = of_means[0];
  mean_variance_count = of_means[1];
}

void RunStatistics::visit_state(StateVisitor& visitor) {
  if (visitor.restores()) {
    unflushed_.clear();
    sketches_.clear();
    own_ = {};
    own_rounds_ = 0;
  } else {
    flush();
  }
  const double sent_so_far = epoch_.sent_bytes + run_.sent_bytes;
  visit_in(visitor, "epoch", epoch_);
  visit_in(visitor, "closed epochs", run_);
  if (visitor.restores() && sent_so_far == 0)
    sent_before_start_ = epoch_.sent_bytes + run_.sent_bytes;
  visit_seconds(visitor, Across::same, slowest_);
  if (options_.own_batches) visitor.real("samples of the epoch", epoch_samples_, Across::own);
  visit_results(visitor);
}

void RunStatistics::visit_results(StateVisitor& visitor) {
  visitor.number("epochs", epochs_, Across::same);
  visitor.real("train loss", train_loss_, Across::same);
  visit_optional(visitor, "test accuracy", accuracy_);
  visit_optional(visitor, "best test accuracy", best_accuracy_);
  visit_optional(visitor, "consensus distance", replicas_.consensus_distance);
  visit_optional(visitor, "relative consensus distance", replicas_.consensus_distance_relative);
  std::uint64_t bytes = replicas_.evaluation_sent_bytes.value_or(0);
  visitor.number("evaluation sent bytes", bytes, Across::same);
  if (bytes > 0) replicas_.evaluation_sent_bytes = bytes;
  visit_nodes(visitor, "test accuracy of ranks", replicas_.node_test_accuracy);
  visit_metrics(visitor);
}

/// Values of ranks, if there are any.
void RunStatistics::visit_nodes(StateVisitor& visitor, std::string_view name,
                                std::vector<double>& values) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> nodes = values;
  nodes.resize(static_cast<std::size_t>(comm_.size()), kUnknown);
  if (visitor.restores()) std::ranges::fill(nodes, kUnknown);
  visitor.doubles(name, nodes, Across::fresh);
  values.clear();
  if (!std::isnan(nodes[0])) values = std::move(nodes);
}

/// If a task's main metric is the accuracy, that and the best so far say enough: what else was
/// measured is measured again before the run ends.
void RunStatistics::visit_metrics(StateVisitor& visitor) {
  if (metrics_.front().name == kAccuracy) {
    metrics_.front().value = accuracy_.value_or(metrics_.front().value);
    best_metric_ = best_accuracy_;
    return;
  }
  std::vector<double> values;
  for (const metrics::MetricRecord& metric : metrics_) values.push_back(metric.value);
  visitor.doubles("test metrics", values, Across::same);
  for (std::size_t i = 0; i < values.size(); ++i) metrics_[i].value = values[i];
  visit_optional(visitor, "best test metric", best_metric_);
  visit_nodes(visitor, "test metric of ranks", replicas_.node_test_metric);
}

/// Returns the seconds of all ranks, the same on every rank.
std::vector<metrics::PhaseSeconds> RunStatistics::of_ranks(const metrics::PhaseSeconds& s) {
  const std::array<double, 7> mine = in_order(s);
  std::vector<double> table(mine.size() * static_cast<std::size_t>(comm_.size()));
  std::ranges::copy(mine, table.begin() + std::ssize(mine) * comm_.rank());
  comm_.allreduce_sum(table);
  std::vector<metrics::PhaseSeconds> all;
  for (auto row = table.begin(); row != table.end(); row += std::ssize(mine)) {
    std::array<double, 7> seconds{};
    std::copy_n(row, seconds.size(), seconds.begin());
    all.push_back(from_order(seconds));
  }
  return all;
}

metrics::PhaseSeconds RunStatistics::slowest(const metrics::PhaseSeconds& s) {
  std::array<double, 7> all = in_order(s);
  comm_.allreduce_max(all);
  return from_order(all);
}

}  // namespace eqt::train
