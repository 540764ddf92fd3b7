// SPDX-License-Identifier: Apache-2.0
// The documented order of additions in ring and recursive doubling, for their tests.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/collective.hpp"
#include "core/random.hpp"
#include "pipeline/engine.hpp"
#include "support/gaussian.hpp"

namespace eqt::test {

using MakeCollective = std::unique_ptr<collective::Collective> (*)(
    comm::Communicator&, const codec::Compressor&, std::span<const pipeline::FusionBucket>);

inline const std::vector<std::pair<std::string, MakeCollective>>& both() {
  static const std::vector<std::pair<std::string, MakeCollective>> pair = {
      {"ring", &collective::make_ring},
      {"recursive-doubling", &collective::make_recursive_doubling}};
  return pair;
}

inline std::vector<float> gradient_of(int rank, std::size_t count, StepId step = 0) {
  return gaussian(count, {.run_seed = 5, .step = step, .rank = static_cast<std::uint32_t>(rank)});
}

/// One tensor of `segments` segments of 8192 values.
inline Layout one_tensor(std::size_t segments) {
  return {{"weight", {8192, static_cast<std::int64_t>(segments)}, 0, 8192 * segments}};
}

/// The ranks of a recursive doubling by position, each followed by its extra rank, or -1: for n =
/// 2^T + x, the first x positions have one.
struct Places {
  explicit Places(int ranks) {
    while (2 << rounds <= ranks) ++rounds;
    const int places = 1 << rounds, extras = ranks - places;
    for (int p = 0; p < places; ++p) {
      rank.push_back(p < extras ? 2 * p : p + extras);
      extra.push_back(p < extras ? 2 * p + 1 : -1);
    }
  }
  int rounds = 0;
  std::vector<int> rank, extra;
};

/// The mean of each bucket in the plan's order; the step's own numbers in `traffic`.
inline void average(comm::Communicator& comm, collective::Collective& collective,
                    std::span<const pipeline::FusionBucket> plan, StepId step,
                    std::span<float> values, Traffic* traffic = nullptr) {
  for (const pipeline::FusionBucket& bucket : plan) {
    const collective::MeanContext context{.run_seed = 1, .step = step, .density = {}};
    const auto result = mean_of(collective, comm, bucket, context, values);
    if (traffic != nullptr) *traffic += result.traffic;
  }
}

}  // namespace eqt::test
