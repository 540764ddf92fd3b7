// SPDX-License-Identifier: Apache-2.0
// The verb `predict`: a trained network on the user's own inputs.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace eqt::app {

struct PredictCommand {
  std::string run;
  std::vector<std::string> files;  // "-" or none: standard input
  std::string out;                 // "" or "-" = standard output
  std::size_t batch = 64;          // samples at a time
  int threads = 0;                 // 0 = as many as there are cores
  bool best = false;
};

/// Writes a JSON object a line; a file replaces an older one when the last line is written. What
/// cannot be read is named on standard error and left out.
/// @throws Error{usage}, Error{output}; Error{data} at the end if any input was left out
void run_predict(const PredictCommand& command);

}  // namespace eqt::app
