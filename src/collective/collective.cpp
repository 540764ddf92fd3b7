// SPDX-License-Identifier: Apache-2.0
#include "collective/collective.hpp"

#include <numeric>

namespace eqt::collective {

Group everyone(const comm::Communicator& comm) {
  Group group{.ranks = std::vector<Rank>(static_cast<std::size_t>(comm.size())),
              .me = static_cast<std::size_t>(comm.rank()),
              .share = 1.0f / static_cast<float>(comm.size())};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values) {
  MeanResult result;
  pipeline::complete(collective.mean(bucket, context, values, result), comm);
  return result;
}

}  // namespace eqt::collective
