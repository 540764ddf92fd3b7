// SPDX-License-Identifier: Apache-2.0
// Means of tensors with grades, which are those of `dense` as long as every grade is float32.

#pragma once

#include <memory>
#include <span>

#include "codec/mixed/mixed_grades.hpp"
#include "collective/collective.hpp"
#include "collective/worker_mean.hpp"

namespace eqt::collective {

/// The mean of `inner`, and in steps in which every slice sends float32 as it is that of `dense`:
/// in shared memory where all ranks are on one host (Communicator::share_memory).
/// Which it is follows from the table of grades alone, so it is the same on every rank, however
/// often a run is repeated, and in a run that goes on from a checkpoint.
/// Keeps references to `comm` and `grades`.
/// @pre inner->row().takes_exact_grades
std::unique_ptr<Collective> dense_if_exact(comm::Communicator& comm,
                                           const codec::MixedGrades& grades,
                                           std::unique_ptr<Collective> inner);

/// Makes this mean among workers of one process.
std::unique_ptr<WorkerMean> dense_if_exact(const codec::MixedGrades& grades,
                                           std::unique_ptr<WorkerMean> inner,
                                           std::span<const FusionBucket> plan, int workers);

}  // namespace eqt::collective
