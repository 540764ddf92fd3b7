// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_trial.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/clock.hpp"
#include "core/square_norm.hpp"

namespace eqt::adaptation {
namespace {

// Shorter ranges would measure calls rather than values.
constexpr std::size_t kLeastRange = 1024;

}  // namespace

std::vector<SliceParts> compressed_slices(std::span<const pipeline::FusionBucket> plan) {
  std::map<std::uint32_t, SliceParts> by_slice;
  for (const pipeline::FusionBucket& bucket : plan) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed || segment.count == 0) continue;
      SliceParts& parts = by_slice[segment.slice];
      parts.slice = segment.slice;
      parts.count += segment.count;
      parts.parts.push_back({segment.begin, segment.count, segment.first_index});
    }
  }
  std::vector<SliceParts> slices;
  for (auto& [slice, parts] : by_slice) {
    std::ranges::sort(parts.parts, {}, &SliceParts::Part::begin);
    slices.push_back(std::move(parts));
  }
  return slices;
}

std::vector<SliceParts::Part> sample_of(const SliceParts& slice, std::size_t granule,
                                        std::size_t most) {
  const std::size_t length = granule * ((kLeastRange + granule - 1) / granule);
  std::vector<SliceParts::Part> ranges;
  for (const SliceParts::Part& part : slice.parts)
    for (std::size_t at = 0; at < part.count; at += length)
      ranges.push_back({part.begin + at, std::min(length, part.count - at), part.first_index + at});
  std::vector<SliceParts::Part> sample;
  const std::size_t taken = std::min(most, ranges.size());
  for (std::size_t i = 0; i < taken; ++i) {
    const SliceParts::Part& next = ranges[i * ranges.size() / taken];
    const bool goes_on = !sample.empty() &&
                         sample.back().begin + sample.back().count == next.begin &&
                         sample.back().first_index + sample.back().count == next.first_index;
    if (goes_on) {
      sample.back().count += next.count;
    } else {
      sample.push_back(next);
    }
  }
  return sample;
}

std::vector<GradeTrial> GradeTrials::run(std::span<const SliceParts::Part> ranges,
                                         std::span<const float> flat, const RandomKey& key) {
  std::vector<GradeTrial> trials(codec_.grades());
  for (const SliceParts::Part& range : ranges) {
    const auto values = flat.subspan(range.begin, range.count);
    const double square = square_norm(values);
    decoded_.resize(values.size());
    codec::EncodeContext context;
    context.key = key;
    context.first_index = range.first_index;
    for (std::size_t k = 0; k < trials.size(); ++k) {
      const codec::Compressor& compressor = codec_.grade(static_cast<codec::GradeIndex>(k));
      GradeTrial& trial = trials[k];
      payload_.resize(std::max(payload_.size(), compressor.max_payload_bytes(values.size())));
      const Stopwatch encode;
      const std::size_t bytes = compressor.encode(values, context, workspace_, payload_);
      trial.encode_seconds += encode.seconds();
      for (std::size_t i = 0; i < values.size(); ++i) decoded_[i] = -values[i];
      const Stopwatch decode;
      compressor.decode_add(std::span(payload_).first(bytes), 1, workspace_, decoded_);
      trial.decode_seconds += decode.seconds();
      trial.values += static_cast<double>(values.size());
      trial.bytes += static_cast<double>(bytes);
      trial.square += square;
      trial.error += square_norm(decoded_);
    }
  }
  return trials;
}

}  // namespace eqt::adaptation
