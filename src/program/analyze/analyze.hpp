// SPDX-License-Identifier: Apache-2.0
// `analyze`: one function for each thing that can be asked. All print a table, or one JSON object a
// line, and then draw the plot if one was asked for.

#pragma once

#include <array>

#include "analyze/commands.hpp"

namespace eqt::analyze {

/// Answers the question with its own function, see below.
/// @throws Error{usage} for what does not exist or no theorem covers, Error{data} for an invalid
/// gradient file, Error{output} if a plot cannot be made
void run_analyze(const AnalyzeCommand& command);

void run_analyze_levels(const AnalyzeLevelsCommand& command);
void run_analyze_variance(const AnalyzeVarianceCommand& command);
void run_analyze_bits(const AnalyzeBitsCommand& command);
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
