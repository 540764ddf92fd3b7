// SPDX-License-Identifier: Apache-2.0
// Gradient averaging among simulated workers in one process.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/memory.hpp"
#include "collective/worker_mean.hpp"
#include "pipeline/plan.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// Treats each worker's gradient like GradientAveraging does on a rank, in the same order and with
/// the same result. Keeps references to all arguments. Ignores overlap and fault of `options`.
/// @param memories by worker; null if there is no memory
std::unique_ptr<Synchronizer> make_simulated_averaging(
    collective::WorkerMean& mean, std::vector<collective::GradientMemory*> memories,
    std::vector<pipeline::FusionBucket> plan, const Layout& layout, std::span<float> gradient,
    const GradientAveragingOptions& options);

}  // namespace eqt::sync
