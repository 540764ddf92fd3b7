// SPDX-License-Identifier: Apache-2.0
// What a network learns, and how good it is at it, without torch. tasks.def has the rows, task.cpp
// the metrics and task_loss.cpp the losses.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "core/random.hpp"
#include "data/dataset.hpp"
#include "metrics/records.hpp"

namespace eqt::model {

inline constexpr int kTopClasses = 5;  // of a classifier that count in "top5"

/// Sums over samples, so that batches and ranks can be added.
struct Evaluation {
  double loss_sum = 0;            // without label smoothing and class weights
  std::size_t count = 0;          // of what losses are summed: samples; tokens of a language model
  std::vector<double> sums = {};  // the task's own, see tasks.def; empty: all 0

  double loss() const { return loss_sum / static_cast<double>(count); }
  Evaluation& operator+=(const Evaluation& other);
};

/// A figure that follows from the sums of an evaluation.
struct Metric {
  std::string_view name;   // in records, behind "test_"
  std::string_view title;  // in tables, behind "test "
  bool higher_is_better = true;
  bool fraction = false;                 // from 0 to 1, shown as a percentage
  int outputs_above = 0;                 // only of networks with more outputs than this
  double (*of)(const Evaluation& sums);  // NaN if it is not defined
};

struct TaskRow {
  std::string_view name;   // in configs
  std::string_view about;  // one line
  data::TargetKind target;
  std::span<const Metric> metrics;  // the first one says which epoch is the best
  int least_outputs = 1;
  std::size_t sums = 0, sums_per_output = 0;    // of an evaluation
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other kind
  bool own_loss = false;  // the network returns its loss, not what it has found

  static const Catalogue<TaskRow>& all();
};

namespace tasks {
#define EQT_TASK(id, ...) extern const TaskRow id;
#include "model/tasks.def"
}  // namespace tasks

struct TaskOptions {
  Entry<TaskRow> kind = tasks::classification;
  double label_smoothing = 0;              // share of the target spread over all classes
  double mixup = 0;                        // of classification: draw_mixup_share()'s alpha; 0 = off
  std::vector<double> class_weights = {};  // (classes), of a sample's loss by its class; none: 1
};

/// Returns how many outputs the network has for each sample, or for each token of a language model:
/// one for each class, value or token.
/// @param data_set for the message
/// @throws Error{usage} if a set with these targets is not for the task
int outputs_of(const TaskRow& task, std::string_view data_set,
               const std::optional<data::ArraySpec>& target, int classes);

/// The task of a run, for those who judge its evaluations.
struct Measures {
  Entry<TaskRow> task = tasks::classification;
  int outputs = 2;

  std::size_t sums() const {
    return task->sums + task->sums_per_output * static_cast<std::size_t>(outputs);
  }
  /// The main metric first. @param evaluation null: values are not known
  std::vector<metrics::MetricRecord> of(const Evaluation* evaluation) const;
};

// Mixup: a batch is trained on together with itself in reverse order, as a weighted sum of both.
//
// Source   H. Zhang et al., ICLR 2018, arXiv:1710.09412, section 2: x = s x_i + (1 - s) x_j with
//          the loss s l(y_i) + (1 - s) l(y_j), s ~ Beta(alpha, alpha), one s for a batch
// Differs  the partner of sample i is sample n - 1 - i instead of a random one; batches are
//          shuffled

/// Draws s, a pure function of its arguments. @pre alpha > 0
double draw_mixup_share(double alpha, const RandomKey& key);

}  // namespace eqt::model
