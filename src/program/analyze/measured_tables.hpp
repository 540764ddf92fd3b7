// SPDX-License-Identifier: Apache-2.0
// Answers of `analyze memory` and `analyze energy` that put what this program and its runs use
// beside what theory counts.

#pragma once

#include "analyze/commands.hpp"

namespace eqt::analyze {

/// Shows bytes of published networks with each model.precision, modelled and as measure_step()
/// measures them.
void run_measured_memory(const AnalyzeMemoryCommand& command);
/// Shows multiply-adds of the same networks, modelled and as count_products() counts them.
void run_measured_energy(const AnalyzeEnergyCommand& command);

/// Shows what the runs below command.runs wrote down, beside what is modelled.
/// @throws Error{usage}, Error{data} as report::run_folders() and report::read_run()
void run_memory_of_runs(const AnalyzeMemoryCommand& command);

}  // namespace eqt::analyze
