// SPDX-License-Identifier: Apache-2.0
// The steps of allgather on one rank, without sending. Used by ranks and by simulated workers.
// Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"

namespace eqt::collective {

/// TernGrad's scaler sharing: a scale for each segment of the bucket, before any rank draws.
void propose_scales(const codec::Compressor& compressor, const FusionBucket& bucket,
                    std::span<const float> values, std::vector<float>& scales);

/// All messages of one bucket, in the order in which they are added.
struct BucketMessages {
  const FusionBucket& bucket;
  StepId step = 0;
  std::span<const std::span<const std::byte>> frames;
  float share = 1;  // the mean is this times their sum
};

/// Replaces the bucket's part of `values` by the mean of all messages; votes are counted. Messages
/// are added in their order, because float addition is not associative and replicas must stay
/// equal.
/// @throws Error{wire} on any malformed message
void mean_of_messages(const codec::Compressor& compressor, const BucketMessages& messages,
                      Workspace& workspace, std::span<float> values);

}  // namespace eqt::collective
