// SPDX-License-Identifier: Apache-2.0
// Config keys become the collective that averages gradients.

#pragma once

#include <memory>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "pipeline/plan.hpp"

namespace eqt::setup {

/// The collective that config.synchronization.collective names or, if that is `auto`, the one that
/// suits compressor and plan without regard to hosts. Keeps references.
/// @param remembers whether the run has a memory, so that reducers keep residuals, too
std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const codec::Compressor& compressor,
    bool remembers, const std::vector<pipeline::FusionBucket>& plan);

}  // namespace eqt::setup
