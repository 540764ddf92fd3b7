// SPDX-License-Identifier: Apache-2.0
// What users name as inputs, as batches of a network.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/trained_run.hpp"
#include "data/batch.hpp"

namespace eqt::app {

/// This name stands for standard input among the files.
inline constexpr std::string_view kStandardInput = "-";

/// Samples that wait to be computed.
class PredictInput {
 public:
  virtual ~PredictInput() = default;
  /// Returns true if kStandardInput has samples, instead of the names of files.
  virtual bool reads_standard_input() const { return false; }
  /// Adds the samples of a file and calls `full` whenever there are `most` of them; for arrays also
  /// at the end of the file.
  /// @throws Error{data}; the samples before the error stay
  virtual void add(const std::string& source, std::size_t most,
                   const std::function<void()>& full) = 0;
  /// Returns the names of the samples that wait.
  const std::vector<std::string>& names() const { return names_; }
  /// Returns how many places of each sample that waits are its own, where others fill it up behind
  /// them; empty: all are.
  virtual std::vector<std::size_t> lengths() const { return {}; }
  /// The samples that wait, without targets; then none does.
  virtual data::Batch take() = 0;

 protected:
  std::vector<std::string> names_;
};

/// Makes the input that fits what the run was trained on.
/// @throws Error{data} if the run's folder lacks what turns them into inputs, Error{usage} for what
/// is neither a picture, a text nor one array of a fixed shape
std::unique_ptr<PredictInput> make_predict_input(const TrainedRun& run);

}  // namespace eqt::app
