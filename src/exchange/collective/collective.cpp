// SPDX-License-Identifier: Apache-2.0
#include "collective/collective.hpp"

#include <algorithm>
#include <numeric>

namespace eqt::collective {

void Senders::set(std::span<const std::uint64_t> counts) {
  counts_.assign(counts.begin(), counts.end());
  weights_.clear();
  const auto total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  EQT_CHECK(total > 0, "a mean of no rank");
  for (const std::uint64_t count : counts)
    if (count > 0) weights_.push_back(static_cast<float>(static_cast<double>(count) / total));
  equal_ = std::ranges::count(weights_, weights_[0]) == std::ssize(weights_);
}

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
