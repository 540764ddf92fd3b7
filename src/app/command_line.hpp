// The command line: one command, its options, nothing resolved yet.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/analyze/commands.hpp"
#include "report/report.hpp"

namespace eqt::app {

struct TrainCommand {
  std::string config_path;
  std::vector<std::string> sets;  // "key=JSON", in order
  std::string out;                // "" = runs/NAME
  bool overwrite = false;
  bool resume = false;
  bool quiet = false;
  int simulate = 0;  // workers that one process plays in turn; 0 = none
};

struct CheckCommand {
  std::string config_path;
  std::vector<std::string> sets;
  int ranks = 2;  // of the job whose memory is estimated
};

struct ListCommand {
  std::string category;  // "" = all
  bool json = false;
};

struct SchemaCommand {};

struct BenchCommand {
  std::size_t values = 25557032;         // ResNet-50's parameters
  std::vector<std::string> compressors;  // empty = all
  std::vector<std::string> sets;         // "compressor.key=JSON", in order
  bool json = false;
};

struct BenchCollectivesCommand {
  std::vector<std::size_t> values;       // empty = kBenchSizes
  std::vector<std::string> collectives;  // empty = all that take the compressor
  std::vector<std::string> sets;         // "compressor.key=JSON" or "synchronization.key=JSON"
  double seconds = 3;                    // for each row, after its check
  bool json = false;
};

struct DoctorCommand {
  double seconds = 2;  // for measuring links
  int threads = 0;     // per rank; 0 = as a training run would choose
  bool json = false;
};

struct ReportCommand {
  report::Request request;
};

/// Text to print on stdout and end with 0 (--help, --version).
struct PrintCommand {
  std::string text;
};

using Command = std::variant<TrainCommand, CheckCommand, ListCommand, SchemaCommand, BenchCommand,
                             BenchCollectivesCommand, AnalyzeCommand, DoctorCommand, ReportCommand,
                             PrintCommand>;

/// @throws Error{usage}
Command parse_command_line(int argc, char** argv);

}  // namespace eqt::app
