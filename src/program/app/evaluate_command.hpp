// SPDX-License-Identifier: Apache-2.0
// The verb `evaluate`: a trained network on any data set.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace eqt::app {

struct EvaluateCommand {
  std::string target;             // a run folder or a file of weights
  std::string config_path;        // "" = the run's own
  std::vector<std::string> sets;  // "key=JSON", in order
  std::string split = "test";     // or "train"
  std::string out;                // folder; "" = in the run folder, one for each set, or nothing
  std::size_t batch = 250;        // samples at a time
  int threads = 0;                // 0 = as many as there are cores
  bool best = false;
};

/// Prints figures and tables. @throws Error{usage}, Error{data}, Error{output}
void run_evaluate(const EvaluateCommand& command);

}  // namespace eqt::app
