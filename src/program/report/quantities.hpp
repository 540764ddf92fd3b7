// SPDX-License-Identifier: Apache-2.0
// The figures that a report compares, each with its unit and its number of meaningful digits.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "figures/table.hpp"
#include "report/group.hpp"
#include "report/run.hpp"

namespace eqt::report {

using figures::Digits;
using figures::kPercent;

struct Quantity {
  std::string key;   // in CSV and JSON, in SI units and fractions
  std::string head;  // in tables for people
  Digits digits;
  double scale;  // from the key's unit to the head's
  bool main;     // of the first table; the others are details
  std::function<Figure(const Run&)> of;
};

/// All that runs of these tasks may have, the most important first.
std::vector<Quantity> quantities(const std::vector<Group>& groups);

/// The figure by which a report compares its runs: the main metric of their task on the test set.
struct MainFigure {
  metrics::MetricRecord metric;

  Figure of(const Run& run) const;
  std::string key() const { return "test_" + metric.name; }
  std::string title() const { return "test " + metric.title; }
  std::string head() const { return title() + (metric.fraction ? " [%]" : ""); }  // with its unit
  double scale() const { return metric.fraction ? 100 : 1; }
  Digits digits() const { return metric.fraction ? kPercent : Digits{-1, 4}; }
};

/// The accuracy, if a run's task is judged by it; else that of the first run.
MainFigure main_figure(const std::vector<Group>& groups);

/// "Test accuracy" of "test accuracy".
std::string capitalised(std::string text);

metrics::MetricRecord accuracy_metric();

/// A metric of the task on the test set, at the end of a run or of an epoch.
Figure metric_of(const Run& run, const std::string& name);
Figure metric_of(const Epoch& epoch, const std::string& name);

/// Bytes that a rank sent on average.
Figure bytes_per_rank(const Run& run);

/// Returns what the last evaluation of a run gave, from 0 to 1.
Figure test_accuracy(const Run& run);

}  // namespace eqt::report
