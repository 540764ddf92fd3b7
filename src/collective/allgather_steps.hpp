// What allgather does on one rank, without sending: for ranks and for workers alike. Private to the
// room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"

namespace eqt::collective {

/// TernGrad's scaler sharing: a scale for each segment of the bucket, before anyone draws.
void propose_scales(const codec::Compressor& compressor, const FusionBucket& bucket,
                    std::span<const float> values, std::vector<float>& scales);

/// Scales per segment: of all ranks and of this one. Both empty: none are shared.
struct Scales {
  std::span<const float> shared, own;
};

/// The bucket's message. @param rank names the random stream @return bytes written
[[nodiscard]] std::size_t encode_bucket(const codec::Compressor& compressor,
                                        const FusionBucket& bucket, const MeanContext& context,
                                        std::uint32_t rank, std::span<const float> values,
                                        const Scales& scales, Workspace& workspace,
                                        std::span<std::byte> room);

/// Replaces the bucket's part of `values` by share times the sum of all messages, added in their
/// order, for float addition is not associative and replicas must stay equal; votes are counted.
/// @throws Error{wire} on any malformed message
void mean_of_messages(const codec::Compressor& compressor, const FusionBucket& bucket, StepId step,
                      std::span<const std::span<const std::byte>> frames, float share,
                      Workspace& workspace, std::span<float> values);

}  // namespace eqt::collective
