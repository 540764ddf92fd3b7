// SPDX-License-Identifier: Apache-2.0
// The verbs of the program itself; those of other rooms are declared there.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/command_line.hpp"

namespace eqt::app {

/// Program, git revision, LibTorch, MPI, SIMD target and compressors; several lines.
std::string version_text();

std::vector<std::string> list_categories();
/// Prints names with one line about each, or JSON.
void run_list(const ListCommand& command);
void run_schema();
/// Prints the resolved config on stdout, and on stderr what a run on this machine would read and
/// need. @throws Error as that run does before its first step; of files only behind the config
void run_check(const CheckCommand& command);

/// Says what to try where nothing is called `path`: "the nearest is runs/quickstart", from what
/// lies beside it; `otherwise` if no name there is similar.
std::string nearest_or(const std::string& path, std::string otherwise);

/// @throws Error{usage} for a folder that is not there, with the nearest
void require_folders(const std::vector<std::string>& paths, std::string_view verb);

/// The text of a file. @throws Error{usage} if it cannot be read
std::string read_config_file(const std::string& path);

/// Prints figures and tables. @throws Error{usage}, Error{data}, Error{output}
void run_evaluate(const EvaluateCommand& command);

/// Writes a JSON object a line; a file replaces an older one when the last line is written. What
/// cannot be read is named on standard error and left out.
/// @throws Error{usage}, Error{output}; Error{data} at the end if any input was left out
void run_predict(const PredictCommand& command);

/// Prints the file's path. @throws Error{usage}, Error{data}, Error{output}
void run_export(const ExportCommand& command);

/// Writes a config for what is there, says what that is and what to do next. No file is replaced.
/// @throws Error{usage}; Error{data} for what no run could train on, Error{output}
void run_init(const InitCommand& command);

/// Starts MPI, trains, writes the run folder. @return the exit code
int run_train(const TrainCommand& command, int argc, char** argv);

}  // namespace eqt::app
