// SPDX-License-Identifier: Apache-2.0
// What a rank's memory sees of a collective, without ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/message.hpp"
#include "collective/collective.hpp"

namespace eqt::test {

/// One slice, one bucket, one rank: the steps of a collective for the rank's own message.
class OwnMessage {
 public:
  OwnMessage(const codec::Compressor& compressor, std::size_t count, bool compressed = true)
      : compressor_(compressor) {
    bucket_.end = count;
    bucket_.segments = {
        {.slice = 0, .first_index = 0, .begin = 0, .count = count, .compressed = compressed}};
    frame_.resize(codec::max_message_bytes(compressor, bucket_.segments));
  }

  const collective::FusionBucket& bucket() const { return bucket_; }

  collective::Contribution encode(std::span<const float> values, StepId step,
                                  std::uint64_t run_seed = 1) {
    const std::size_t bytes =
        codec::MessageCodec(compressor_, bucket_.segments, workspace_)
            .encode(values, {.run_seed = run_seed, .id = {.step = step}}, frame_);
    own_ = {std::span(frame_).first(bytes), bucket_.segments};
    return {.compressor = &compressor_,
            .step = step,
            .index = 0,
            .frames = std::span(&own_, 1),
            .exact = {}};
  }

  std::vector<float> decode(const collective::Contribution& contribution, std::size_t count) {
    std::vector<float> values(count);
    codec::MessageCodec(compressor_, bucket_.segments, workspace_)
        .decode_add(contribution.frames[0].bytes, {.step = contribution.step}, 1.0f, values);
    return values;
  }

 private:
  const codec::Compressor& compressor_;
  collective::FusionBucket bucket_;
  std::vector<std::byte> frame_;
  collective::Frame own_;
  Workspace workspace_;
};

}  // namespace eqt::test
