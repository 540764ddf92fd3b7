// SPDX-License-Identifier: Apache-2.0
#include "collective/collective.hpp"

#include <algorithm>
#include <numeric>

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

void Senders::set(std::span<const std::uint64_t> counts) {
  counts_.assign(counts.begin(), counts.end());
  weights_.clear();
  const auto total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  EQT_CHECK(total > 0, "a mean of no rank");
  for (const std::uint64_t count : counts)
    if (count > 0) weights_.push_back(static_cast<float>(static_cast<double>(count) / total));
  equal_ = std::ranges::count(weights_, weights_[0]) == std::ssize(weights_);
}

Group everyone(const comm::Communicator& comm) {
  Group group{.ranks = std::vector<Rank>(static_cast<std::size_t>(comm.size())),
              .me = static_cast<std::size_t>(comm.rank()),
              .share = 1.0f / static_cast<float>(comm.size())};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values) {
  MeanResult result;
  pipeline::complete(collective.mean(bucket, context, values, result), comm);
  return result;
}

}  // namespace eqt::collective
