// SPDX-License-Identifier: Apache-2.0
// `analyze`: the questions, as the command line gives them, and one function for each. All print a
// table, or one JSON object a line, and then draw the plot if one was asked for.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "theory/convergence.hpp"

namespace eqt::analyze {

/// Says how an answer is shown: text or one JSON object a line, and a plot if a file is named.
struct AnalyzeOutput {
  bool json = false;
  std::string plot;  // "" = none; *.svg or *.png
};

/// Says which compressors are asked about, with which settings.
struct CompressorQuestion {
  std::vector<std::string> names;  // empty = the question's usual ones
  std::vector<std::string> sets;   // "compressor.key=JSON", in order
};

/// Says which values are quantised.
struct ValuesQuestion {
  std::string source = "normal";  // of theory::sources()
  std::size_t values = 65536;
  std::uint64_t seed = 1;
  std::string file;  // a gradient as output.dump_gradients writes it; "" = drawn from `source`
  int draws = 20;    // of Monte-Carlo
};

struct AnalyzeLevelsCommand {
  CompressorQuestion compressors;
  AnalyzeOutput output;
};

struct AnalyzeVarianceCommand {
  CompressorQuestion compressors;
  ValuesQuestion values;
  bool by_tensor = false;  // a row for each tensor of a file with a layout
  AnalyzeOutput output;
};

struct AnalyzeBitsCommand {
  CompressorQuestion compressors;
  ValuesQuestion values;
  AnalyzeOutput output;
};

struct AnalyzeRatesCommand {
  std::vector<std::string> files;  // gradients as output.dump_gradients writes them; not empty
  int draws = 3;                   // of each, for compressors that draw
  AnalyzeOutput output;
};

struct AnalyzeWorstCaseCommand {
  std::vector<int> bits;             // empty = kWorstCaseBits
  std::vector<std::size_t> buckets;  // empty = kWorstCaseBuckets
  AnalyzeOutput output;
};

struct AnalyzeConvergenceCommand {
  // convex nonconvex error-feedback momentum convex-momentum decentralised
  std::string setting = "nonconvex";
  theory::Problem problem;  // 0 = not given
  double target = 0;        // 0 = not given
  double momentum = 0.9;
  bool nesterov = false;
  double heterogeneity = 0;        // of the ranks' losses: z^2
  std::optional<double> error;     // error-feedback: of the compressors, in place of their bounds
  std::string topology = "ring";   // decentralised
  std::size_t values = 1'000'000;  // parameters of the model
  CompressorQuestion compressors;
  AnalyzeOutput output;
};

struct AnalyzeEnergyCommand {
  bool paper = false;     // the published accounting, beside the published figures
  bool measured = false;  // multiply-adds of this program's layers, beside the modelled ones
  int batch_size = 32;
  AnalyzeOutput output;
};

struct AnalyzeMemoryCommand {
  bool paper = false;
  bool measured = false;          // bytes of this program's networks, beside the modelled ones
  std::vector<std::string> runs;  // folders; not empty: what runs recorded
  int batch_size = 32;
  int copies = 2;  // of the parameters that the algorithm remembers: CHOCO's
  AnalyzeOutput output;
};

struct AnalyzeTopologyCommand {
  std::vector<std::string> kinds;  // empty = all that have a name
  std::vector<int> ranks;          // empty = kAnalyzedRanks, or the graph's own number
  bool directed = false;           // ring
  std::string weights = "auto";
  int rows = 0;      // torus, mesh; 0 = as square as possible
  std::string file;  // the kind graph
  AnalyzeOutput output;
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
  AnalyzeOutput output;
};

using AnalyzeCommand =
    std::variant<AnalyzeLevelsCommand, AnalyzeVarianceCommand, AnalyzeBitsCommand,
                 AnalyzeRatesCommand, AnalyzeWorstCaseCommand, AnalyzeConvergenceCommand,
                 AnalyzeEnergyCommand, AnalyzeMemoryCommand, AnalyzeTopologyCommand,
                 AnalyzeVolumeCommand>;

/// Answers the question with its own function, see below.
/// @throws Error{usage} for what does not exist or no theorem covers, Error{data} for an invalid
/// gradient file, Error{output} if a plot cannot be made
void run_analyze(const AnalyzeCommand& command);

void run_analyze_levels(const AnalyzeLevelsCommand& command);
void run_analyze_variance(const AnalyzeVarianceCommand& command);
void run_analyze_bits(const AnalyzeBitsCommand& command);
void run_analyze_rates(const AnalyzeRatesCommand& command);
void run_analyze_worst_case(const AnalyzeWorstCaseCommand& command);
void run_analyze_convergence(const AnalyzeConvergenceCommand& command);
void run_analyze_energy(const AnalyzeEnergyCommand& command);
void run_analyze_memory(const AnalyzeMemoryCommand& command);

inline constexpr std::array<int, 5> kAnalyzedRanks = {4, 8, 16, 32, 64};

/// Prints a row for each graph and number of ranks; without kinds, ranks and file the spectral gaps
/// of the usual graphs and how near one peer a step comes to the mean.
/// @throws Error{usage} if a graph that was asked for does not exist
void run_analyze_topology(const AnalyzeTopologyCommand& command);

/// Without a model: the published table, each row beside what this program computes and sends.
/// @throws Error{usage}
void run_analyze_volume(const AnalyzeVolumeCommand& command);

}  // namespace eqt::analyze
