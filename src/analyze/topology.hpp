// `analyze topology`: how fast a graph brings ranks together, and what it costs them.

#pragma once

#include <array>

#include "analyze/commands.hpp"

namespace eqt::analyze {

inline constexpr std::array<int, 5> kAnalyzedRanks = {4, 8, 16, 32, 64};

/// Prints a row for each graph and number of ranks; without kinds, ranks and file the spectral gaps
/// of the usual graphs and how near one peer a step comes to the mean.
/// @throws Error{usage} if a graph that was asked for does not exist
void run_analyze_topology(const AnalyzeTopologyCommand& command);

}  // namespace eqt::analyze
