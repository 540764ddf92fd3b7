// SPDX-License-Identifier: Apache-2.0
#include "analyze/analyze.hpp"

namespace eqt::analyze {
namespace {

void run(const AnalyzeLevelsCommand& command) { run_analyze_levels(command); }
void run(const AnalyzeVarianceCommand& command) { run_analyze_variance(command); }
void run(const AnalyzeBitsCommand& command) { run_analyze_bits(command); }
void run(const AnalyzeRatesCommand& command) { run_analyze_rates(command); }
void run(const AnalyzeWorstCaseCommand& command) { run_analyze_worst_case(command); }
void run(const AnalyzeConvergenceCommand& command) { run_analyze_convergence(command); }
void run(const AnalyzeEnergyCommand& command) { run_analyze_energy(command); }
void run(const AnalyzeMemoryCommand& command) { run_analyze_memory(command); }
void run(const AnalyzeTopologyCommand& command) { run_analyze_topology(command); }
void run(const AnalyzeVolumeCommand& command) { run_analyze_volume(command); }

}  // namespace

void run_analyze(const AnalyzeCommand& command) {
  std::visit([](const auto& question) { run(question); }, command);
}

}  // namespace eqt::analyze
