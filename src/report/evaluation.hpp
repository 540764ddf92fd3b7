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

#include "report/drawing.hpp"
#include "report/table.hpp"

namespace eqt::report {

struct Evaluated {
  std::string network;  // file of its weights
  std::string dataset;
  std::string split;  // "test" or "train"
  std::size_t samples = 0;
  std::vector<std::pair<std::string, double>> metrics;  // name and value; the loss first
  std::vector<std::string> classes;                     // empty: the task has none
  std::vector<std::vector<std::uint64_t>> confusion;    // (class, predicted class) [samples]
};

/// The names of the files of an evaluation, in its folder.
inline constexpr const char* kEvaluationFolder = "evaluation";  // in a run folder
inline constexpr const char* kEvaluationFile = "evaluation.json";

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
/// What evaluation_json() wrote into a run folder's kEvaluationFolder; empty if there is none.
/// @throws Error{data} for a file of another form
std::optional<Evaluated> read_evaluation(const std::string& run_folder);

}  // namespace eqt::report
