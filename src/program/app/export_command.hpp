// SPDX-License-Identifier: Apache-2.0
// The verb `export`: a run's network as a file for other programs.

#pragma once

#include <string>

namespace eqt::app {

struct ExportCommand {
  std::string run;
  std::string to = "torchscript";  // a name of model::ExportFormat
  std::string out;                 // "" = model with the format's ending, in the run folder
  bool best = false;
};

/// Prints the file's path. @throws Error{usage}, Error{data}, Error{output}
void run_export(const ExportCommand& command);

}  // namespace eqt::app
