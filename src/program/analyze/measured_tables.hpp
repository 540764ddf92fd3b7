// SPDX-License-Identifier: Apache-2.0
// Answers of `analyze memory` and `analyze energy` that put what this program and its runs use
// beside what theory counts.

#pragma once

#include "analyze/commands.hpp"

namespace eqt::analyze {

/// Published networks with each model.precision: modelled bytes, and those of measure_step().
void run_measured_memory(const AnalyzeMemoryCommand& command);
/// Likewise multiply-adds, and those of count_products().
void run_measured_energy(const AnalyzeEnergyCommand& command);

/// What the runs below command.runs wrote down.
/// @throws Error{usage}, Error{data} as report::run_folders() and report::read_run()
void run_memory_of_runs(const AnalyzeMemoryCommand& command);

}  // namespace eqt::analyze
