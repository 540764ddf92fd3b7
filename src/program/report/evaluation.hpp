// SPDX-License-Identifier: Apache-2.0
// What `evaluate` finds out about a trained network: figures, tables, a picture of the confusion
// matrix.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "figures/table.hpp"
#include "report/drawing.hpp"

namespace eqt::report {

using figures::Table;

struct Evaluated {
  std::string network;  // file of its weights
  std::string dataset;  // its name in configs
  std::string path;     // its folder; "" = the set's default place
  std::string split;    // "test" or "train"
  std::size_t samples = 0;
  int ranks = 1;  // above 1: these are rank 0's own samples, of a run with so many ranks

  /// "arrays in data/mine, test".
  std::string set_text() const;
  std::vector<std::pair<std::string, double>> metrics;  // name and value; the loss first
  std::vector<std::string> classes;                     // empty: the task has none
  std::vector<std::vector<std::uint64_t>> confusion;    // (class, predicted class) [samples]
};

/// The names of the files of an evaluation, in its folder.
inline constexpr const char* kEvaluationFolder = "evaluation";  // in a run folder
inline constexpr const char* kEvaluationFile = "evaluation.json";

/// The folders with evaluations of a run: kEvaluationFolder, which has that of the run's own test
/// set, and those below it, one for each other set. Links are not followed.
std::vector<std::string> evaluation_folders(const std::string& run_folder);

/// Samples, accuracy, precision and the most frequent mistake of each class.
/// @pre there are classes
Table class_table(const Evaluated& evaluated);
/// A row for each class, a column for each predicted class.
/// @pre there are classes
Table confusion_table(const Evaluated& evaluated);

/// More classes are not drawn.
inline constexpr std::size_t kMaxDrawnClasses = 64;
/// The matrix as coloured squares: the share of a row's samples.
/// @pre at least one class, at most kMaxDrawnClasses
Drawing confusion_drawing(const Evaluated& evaluated, const std::string& name);

std::string evaluation_json(const Evaluated& evaluated);
/// Reads what evaluation_json() wrote into a folder; empty if there is none.
/// @throws Error{data} for a file of another form
std::optional<Evaluated> read_evaluation(const std::string& folder);

/// A row for each evaluation of each run; no rows if there are none.
/// @throws Error{data} as read_evaluation()
Table evaluations_table(const std::vector<Group>& groups);

}  // namespace eqt::report
