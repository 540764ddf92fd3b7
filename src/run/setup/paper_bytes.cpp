// SPDX-License-Identifier: Apache-2.0
#include "setup/paper_bytes.hpp"

#include "theory/paper_volume.hpp"

namespace eqt::setup {

std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.mixes || algorithm.asynchronous || algorithm.mixes_direction) return {};
  const auto& compressor = config.compressor;
  const StepId rounds = steps / *config.synchronization.local_steps.count;
  if (compressor.name == codec::kNone) return rounds * theory::paper_bytes_per_step(layout, {});
  if (compressor.name == codec::kTopK && compressor.value_bits == 32)
    return rounds * theory::paper_bytes_per_step(layout, compressor.density);
  return {};
}

}  // namespace eqt::setup
