// SPDX-License-Identifier: Apache-2.0
// The command line: one command and its options, not resolved yet.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analyze/analyze.hpp"
#include "bench/bench.hpp"
#include "doctor/doctor.hpp"
#include "planner/plan.hpp"
#include "report/report.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace eqt::app {

struct TrainCommand {
  std::string config_path;
  std::vector<std::string> sets;  // "key=JSON", in order
  std::string out;                // "" = runs/NAME
  bool overwrite = false;
  bool resume = false;
  bool quiet = false;
  int simulate = 0;  // number of simulated ranks; 0 = none
};

struct CheckCommand {
  std::string config_path;
  std::vector<std::string> sets;
  std::optional<int> ranks{};  // of the job whose memory is estimated; none: 2
  bool full = false;           // every key, not only those that decide the others
};

struct ListCommand {
  std::string category;  // "" = all
  bool json = false;
};

struct SchemaCommand {
  bool cluster = false;  // of cluster files, not of configs
};

struct ReportCommand {
  report::Request request;
};

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

struct PredictCommand {
  std::string run;
  std::vector<std::string> files;  // "-" or none: standard input
  std::string out;                 // "" or "-" = standard output
  std::size_t batch = 64;          // samples at a time
  int threads = 0;                 // 0 = as many as there are cores
  bool best = false;
};

struct ExportCommand {
  std::string run;
  std::string to = "torchscript";  // a name of model::ExportFormat
  std::string out;                 // "" = model with the format's ending, in the run folder
  bool best = false;
};

struct InitCommand {
  std::vector<std::string> paths;  // data, a network, or both
  std::string out;                 // "" = NAME.json in the working folder
};

/// The process in standby, from which ranks are started.
struct StandbyCommand {
  std::string path;  // of its socket
  int parent = 0;    // the process with which it ends, or 0
};

/// Text to print on stdout and end with 0 (--help, --version).
struct PrintCommand {
  std::string text;
};

using Command =
    std::variant<TrainCommand, CheckCommand, ListCommand, SchemaCommand, bench::BenchCommand,
                 bench::BenchCollectivesCommand, bench::BenchConvolutionsCommand,
                 analyze::AnalyzeCommand, doctor::DoctorCommand, planner::PlanCommand,
                 ReportCommand, EvaluateCommand, ExportCommand, PredictCommand, InitCommand,
                 StandbyCommand, PrintCommand>;

/// Takes numbers from `least` to `most`. CLI::Range would take NaN, too.
CLI::Validator number_between(double least, double most);

/// Loads the plugins of --plugin. Call it before parse_command_line(), whose options list
/// compressors.
/// @throws Error{usage}
void load_plugins(int argc, char** argv);

/// Adds --plugin to a verb, only for the help and the parser, because load_plugins() has already
/// read it.
void add_plugin_option(CLI::App& app);

/// Adds --plugin, --config and --set.
void add_config_options(CLI::App& app, std::string& path, std::vector<std::string>& sets);

/// @throws Error{usage}
Command parse_command_line(int argc, char** argv);

/// The manual page of `program` with all of its verbs, in the notation of man (roff).
std::string manual_page(const CLI::App& program);

/// A script for bash that completes verbs, options, config keys and the names that they accept.
std::string bash_completion(const CLI::App& program);

/// Reports unknown arguments. Call it after parsing, even if parsing failed.
/// @throws Error{usage} for an option or word that the verb does not have, with the nearest one,
///         the config key of that name or the right form of a config file; for an option before a
///         verb, which would be ignored
void require_known_arguments(const CLI::App& program);

}  // namespace eqt::app
