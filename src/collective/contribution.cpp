// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collective/collective.hpp"
#include "collective/messages.hpp"

namespace eqt::collective {

void Contribution::keep_encoded(std::span<float> flat, const FusionBucket& bucket) const {
  if (everything_exact()) {
    std::fill_n(flat.begin() + static_cast<std::ptrdiff_t>(bucket.begin), bucket.count(), 0.0f);
    return;
  }
  const float* sum = sums.data();
  for (const codec::Segment& segment : summed) {
    std::copy_n(sum, segment.count, flat.begin() + static_cast<std::ptrdiff_t>(segment.begin));
    sum += segment.count;
  }
  for (const codec::Segment& segment : exact) {
    std::fill_n(flat.begin() + static_cast<std::ptrdiff_t>(segment.begin), segment.count, 0.0f);
  }
}

void Contribution::subtract_from(std::span<float> flat, const FusionBucket& bucket,
                                 Workspace& workspace) const {
  keep_encoded(flat, bucket);
  if (everything_exact()) return;
  if (own != nullptr) own->subtract_from(flat);
  for (const codec::Segment& segment : approximated) {
    for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i)
      flat[i] -= approximation[i];
  }
  for (const Frame& frame : frames) {
    codec::decode_message_add(*compressor, frame.segments, frame.bytes, step,
                              hop_index(index, frame.hop), -frame.weight, workspace, flat);
  }
}

void Contribution::zero_sent(std::span<float> flat) const {
  for (const Frame& frame : frames) {
    codec::zero_sent_in_message(*compressor, frame.segments, frame.bytes, step,
                                hop_index(index, frame.hop), flat);
  }
}

}  // namespace eqt::collective
