// SPDX-License-Identifier: Apache-2.0
// Gradient averaging among workers that one process plays one after the other.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/memory.hpp"
#include "collective/worker_mean.hpp"
#include "pipeline/plan.hpp"
#include "train/gradient_averaging.hpp"
#include "train/synchronizer.hpp"

namespace eqt::train {

/// Does to each worker's gradient what GradientAveraging does on a rank, in the same order and with
/// the same result. Keeps references to everything it is given. Of `options` overlap and fault mean
/// nothing here.
/// @param memories by worker; null where nothing is remembered
std::unique_ptr<Synchronizer> make_simulated_averaging(
    collective::WorkerMean& mean, std::vector<collective::GradientMemory*> memories,
    std::vector<pipeline::FusionBucket> plan, const Layout& layout, std::span<float> gradient,
    const GradientAveragingOptions& options);

}  // namespace eqt::train
