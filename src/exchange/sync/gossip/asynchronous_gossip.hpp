// SPDX-License-Identifier: Apache-2.0
// Decentralised training without a common step: pairs of ranks average their models while all
// train at their own pace.

#pragma once

#include <memory>
#include <span>

#include "comm/communicator.hpp"
#include "pipeline/plan.hpp"
#include "sync/gossip/pairwise.hpp"
#include "sync/gossip/pairwise_exchange.hpp"
#include "sync/gossip/shared_model.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// Everything outlives the synchronizer.
struct AsynchronousGossipParts {
  comm::Communicator& comm;
  PairwiseAveraging& pairs;
  SharedModel& model;  // the one that `pairs` averages
  std::span<const pipeline::FusionBucket> plan;
  std::span<float> parameters;
};

/// Makes gossip for Plan::asynchronous. The trainer works on a copy of the model. Its update is
/// added to the model at the end of a step, and the next step begins with the model at that time
/// (AD-PSGD, Lian et al., ICML 2018). From the first step of an epoch to end_epoch() a
/// communication thread averages and makes all MPI calls.
///
/// A rank whose step takes longer than the deadline ends the job, and so does a rank that does not
/// answer a partner in time.
std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const PairwiseExchangeOptions& options);

}  // namespace eqt::sync
