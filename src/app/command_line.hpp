// The command line: one command, its options, nothing resolved yet.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "report/report.hpp"

namespace eqt::app {

struct TrainCommand {
  std::string config_path;
  std::vector<std::string> sets;  // "key=JSON", in order
  std::string out;                // "" = runs/NAME
  bool overwrite = false;
  bool resume = false;
  bool quiet = false;
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

struct AnalyzeTopologyCommand {
  std::vector<std::string> kinds;  // empty = all that have a name
  std::vector<int> ranks;          // empty = kAnalyzedRanks, or the graph's own number
  bool directed = false;           // ring
  std::string weights = "auto";
  int rows = 0;      // torus, mesh; 0 = as square as possible
  std::string file;  // the kind graph
  bool json = false;
};

struct DoctorCommand {
  double seconds = 2;  // for measuring links
  int threads = 0;     // per rank; 0 = as a training run would choose
  bool json = false;
};

struct AnalyzeVolumeCommand {
  std::string model;                        // "" = the published table
  std::string normalization = "batchnorm";  // the config's default
  std::size_t ranks = 8;
  std::size_t samples = 50000;    // of the training set, CIFAR-10's
  std::size_t batch_size = 32;    // per rank
  std::uint64_t epochs = 200;     // as published
  std::optional<double> density;  // none: float32
  std::size_t edges = 1;          // out of a node
  bool paper = false;             // the tables' accounting alone
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
                             BenchCollectivesCommand, AnalyzeTopologyCommand, AnalyzeVolumeCommand,
                             DoctorCommand, ReportCommand, PrintCommand>;

/// @throws Error{usage}
Command parse_command_line(int argc, char** argv);

}  // namespace eqt::app
