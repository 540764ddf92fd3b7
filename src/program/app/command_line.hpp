// SPDX-License-Identifier: Apache-2.0
// The command line: one command and its options, not resolved yet.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analyze/analyze.hpp"
#include "app/evaluate_command.hpp"
#include "app/export_command.hpp"
#include "app/predict_command.hpp"
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

/// Text to print on stdout and end with 0 (--help, --version).
struct PrintCommand {
  std::string text;
};

using Command =
    std::variant<TrainCommand, CheckCommand, ListCommand, SchemaCommand, bench::BenchCommand,
                 bench::BenchCollectivesCommand, bench::BenchConvolutionsCommand,
                 analyze::AnalyzeCommand, doctor::DoctorCommand, planner::PlanCommand,
                 ReportCommand, EvaluateCommand, ExportCommand, PredictCommand, PrintCommand>;

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

}  // namespace eqt::app
