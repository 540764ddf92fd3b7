// SPDX-License-Identifier: Apache-2.0
#include "setup/make_collective.hpp"

namespace eqt::setup {

std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const codec::Compressor& compressor,
    bool remembers, const std::vector<pipeline::FusionBucket>& plan) {
  return config.synchronization.collective->make(
      {.comm = comm,
       .compressor = compressor,
       .plan = plan,
       .reducer_feedback = remembers,
       .power_sgd = {.rank = static_cast<std::size_t>(config.compressor.rank),
                     .run_seed = config.seed}});
}

}  // namespace eqt::setup
