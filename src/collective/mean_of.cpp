#include "collective/collective.hpp"

namespace eqt::collective {

MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values) {
  MeanResult result;
  pipeline::complete(collective.mean(bucket, context, values, result), comm);
  return result;
}

}  // namespace eqt::collective
