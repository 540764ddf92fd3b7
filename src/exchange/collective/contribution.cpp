// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collective/collective.hpp"
#include "collective/messages.hpp"

namespace eqt::collective {
namespace {

/// The values in [begin, begin + count) of `flat` become those of `base`.
void set_to(std::span<const float> base, std::span<float> flat, std::size_t begin,
            std::size_t count) {
  const auto part = flat.subspan(begin, count);
  if (base.empty()) {
    std::ranges::fill(part, 0.0f);
  } else {
    std::ranges::copy(base.subspan(begin, count), part.begin());
  }
}

}  // namespace

void Contribution::keep_encoded(std::span<float> flat, const FusionBucket& bucket,
                                std::span<const float> base) const {
  if (everything_exact()) {
    set_to(base, flat, bucket.begin, bucket.count());
    return;
  }
  const float* sum = sums.data();
  for (const codec::Segment& segment : summed) {
    set_to(base, flat, segment.begin, segment.count);
    for (float& value : flat.subspan(segment.begin, segment.count)) value += *sum++;
  }
  for (const codec::Segment& segment : exact) set_to(base, flat, segment.begin, segment.count);
}

void Contribution::subtract_from(std::span<float> flat, const FusionBucket& bucket,
                                 Workspace& workspace, std::span<const float> base) const {
  keep_encoded(flat, bucket, base);
  if (everything_exact()) return;
  if (own != nullptr) own->subtract_from(flat);
  for (const codec::Segment& segment : approximated) {
    for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i)
      flat[i] -= approximation[i];
  }
  for (const Frame& frame : frames) {
    codec::MessageCodec(*compressor, frame.segments, workspace)
        .decode_add(frame.bytes, {step, hop_index(index, frame.hop)}, -frame.weight, flat);
  }
}

void Contribution::zero_sent(std::span<float> flat) const {
  Workspace unused;
  for (const Frame& frame : frames) {
    codec::MessageCodec(*compressor, frame.segments, unused)
        .zero_sent(frame.bytes, {step, hop_index(index, frame.hop)}, flat);
  }
}

}  // namespace eqt::collective
