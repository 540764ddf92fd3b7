// SPDX-License-Identifier: Apache-2.0
// Config keys become the collective that averages gradients; `synchronization.collective: "auto"`
// takes the one that costs least for these ranks and this plan.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "pipeline/plan.hpp"

namespace eqt::setup {

/// Returns how many hosts the job has, if each has as many ranks; else 0. Collective.
int equal_hosts(comm::Communicator& comm);

struct CostedChoice {
  Entry<eqt::collective::CollectiveRow> collective;
  std::string note;  // one line: the choice and what it was preferred to
};

/// Simulates the exchange of the plan by each compatible collective (step_model.hpp) on a machine
/// of fixed speeds with links of 100 Mb/s between hosts, all buckets ready at once, and takes the
/// first in the order of preference that is as fast as the best, up to a tie of 10 %; on one host
/// the first. Nothing is measured, because collectives differ in the bits of their means: the
/// choice depends on the compressor, the plan, and how many ranks run on how many hosts, so that a
/// run repeats itself. Collective.
///
/// Candidates quantise a value at most twice, as scatter-reduce does, unless the compressor is
/// lossless, and no other one reaches the same bytes with fewer: speed does not buy error. What
/// comes first is choose_collective()'s static choice.
/// @return nothing where there is nothing to choose
/// @param remembers whether the run has a memory
std::optional<CostedChoice> choose_by_cost(const config::RunConfig& config,
                                           comm::Communicator& comm,
                                           const codec::Compressor& compressor, bool remembers,
                                           const std::vector<pipeline::FusionBucket>& plan);

/// Returns what `auto` chooses where there are no ranks: the same, but for collectives that refuse
/// a config for another reason than its compressor.
/// @param equal_hosts whether each host has as many ranks
/// @pre plan is not empty
Entry<eqt::collective::CollectiveRow> collective_on_paper(
    const codec::Compressor& compressor, const std::vector<pipeline::FusionBucket>& plan, int ranks,
    int hosts, bool equal_hosts);

/// The collective that config.synchronization.collective names or, if that is `auto`, the one that
/// suits compressor and plan without regard to hosts. Keeps references.
/// @param remembers whether the run has a memory, so that reducers keep residuals, too
std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const codec::Compressor& compressor,
    bool remembers, const std::vector<pipeline::FusionBucket>& plan);

}  // namespace eqt::setup
