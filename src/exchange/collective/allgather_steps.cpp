// SPDX-License-Identifier: Apache-2.0
#include "collective/allgather_steps.hpp"

#include <algorithm>

#include "codec/message.hpp"

namespace eqt::collective {
namespace {

/// The rule of the sign codecs: -1 below zero, else +1. A NaN stays NaN, so that the trainer's
/// check finds it.
void take_signs(std::span<float> mean) {
  for (float& value : mean) {
    if (value < 0) value = -1;
    if (value >= 0) value = 1;
  }
}

}  // namespace

void propose_scales(const codec::Compressor& compressor, const FusionBucket& bucket,
                    std::span<const float> values, std::vector<float>& scales) {
  scales.clear();
  for (const codec::Segment& segment : bucket.segments) {
    scales.push_back(segment.compressed
                         ? compressor.local_scale(values.subspan(segment.begin, segment.count))
                         : 0.0f);
  }
}

void mean_of_messages(const codec::Compressor& compressor, const BucketMessages& messages,
                      Workspace& workspace, std::span<float> values) {
  const FusionBucket& bucket = messages.bucket;
  std::ranges::fill(values.subspan(bucket.begin, bucket.count()), 0.0f);
  codec::MessageCodec(compressor, bucket.segments, workspace)
      .decode_add_all(messages.frames, {messages.step, bucket.index}, messages.share, values);
  if (!compressor.properties().votes) return;
  for (const codec::Segment& segment : bucket.segments) {
    const auto mean = values.subspan(segment.begin, segment.count);
    if (segment.compressed) {
      compressor.finish_mean(mean);
    } else {
      take_signs(mean);  // one learning rate cannot suit signs and gradients
    }
  }
}

}  // namespace eqt::collective
