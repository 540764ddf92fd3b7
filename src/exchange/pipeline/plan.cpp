// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::pipeline {
namespace {

/// A weight tensor (out, ...) as a matrix with one row per output.
std::size_t rows_of(const TensorSlice& slice) {
  return slice.shape.size() > 1 ? static_cast<std::size_t>(slice.shape.front()) : 0;
}

std::vector<FusionBucket> plan_by_layer(const Layout& layout, const PlanOptions& options) {
  std::vector<FusionBucket> buckets;
  for (std::size_t i = layout.size(); i-- > 0;) {
    const TensorSlice& slice = layout[i];
    const bool full =
        buckets.empty() || buckets.back().count() * sizeof(float) >= options.bucket_bytes;
    if (full) {
      buckets.push_back({.index = static_cast<std::uint32_t>(buckets.size()),
                         .begin = slice.offset + slice.count,
                         .end = slice.offset + slice.count,
                         .segments = {}});
    }
    buckets.back().begin = slice.offset;
    const bool compressed = is_compressed(slice, options.skip_below);
    buckets.back().segments.push_back(
        {.slice = static_cast<std::uint32_t>(i),
         .first_index = 0,
         .begin = slice.offset,
         .count = slice.count,
         .compressed = compressed,
         .rows = rows_of(slice),
         .int8 = !compressed && options.small_tensors == codec::SmallTensors::int8});
  }
  for (FusionBucket& bucket : buckets) {
    std::reverse(bucket.segments.begin(), bucket.segments.end());
  }
  return buckets;
}

/// Ranges of the flat buffer, cut at positions where collectives may cut, so that no value changes.
std::vector<FusionBucket> plan_whole(std::size_t total, const codec::Compressor& compressor,
                                     const PlanOptions& options) {
  std::size_t length = total;
  if (!needs_whole_slices(compressor)) {
    const std::size_t step = segment_length(compressor);
    length = std::max<std::size_t>(1, options.bucket_bytes / sizeof(float) / step) * step;
  }
  std::vector<FusionBucket> buckets;
  for (std::size_t begin = 0; begin < total; begin += length) {
    const std::size_t end = std::min(total, begin + length);
    buckets.push_back({.begin = begin,
                       .end = end,
                       .segments = {{.slice = kWholeModel,
                                     .first_index = begin,
                                     .begin = begin,
                                     .count = end - begin,
                                     .compressed = true,
                                     .rows = 0}}});
  }
  std::reverse(buckets.begin(), buckets.end());
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i].index = static_cast<std::uint32_t>(i);
  return buckets;
}

std::size_t split_length(std::size_t total, const PlanOptions& options) {
  if (options.split_bytes > 0) return std::max<std::size_t>(1, options.split_bytes / sizeof(float));
  // 64 KiB: 8 KiB at 4 bits; below that the cost per message is noticeable. 1 MiB: two eager
  // fragments at 4 bits, and several such buckets still fit into a core's cache.
  constexpr std::size_t kLeast = 16 * 1024, kMost = 256 * 1024;
  return std::clamp(total / 16, kLeast, kMost);
}

/// The longest part of a segment that is sent in one bucket [values].
std::size_t longest_segment(const codec::Segment& segment, const codec::Compressor& compressor,
                            std::size_t split_values) {
  if (segment.compressed && needs_whole_slices(compressor))
    return std::max<std::size_t>(1, segment.count);  // a tensor may have no values
  // Raw values, too, so that owners have the same ranges of a tensor however it is cut.
  const std::size_t step =
      needs_whole_slices(compressor) ? kMinSegment : segment_length(compressor);
  return std::max<std::size_t>(1, split_values / step) * step;
}

/// Splits from the last value to the first, the order in which buckets are sent.
void split_bucket(const FusionBucket& bucket, const codec::Compressor& compressor,
                  std::size_t split_values, std::vector<FusionBucket>& split) {
  FusionBucket next;
  next.begin = next.end = bucket.end;
  const auto close = [&] {
    if (next.segments.empty()) return;
    std::reverse(next.segments.begin(), next.segments.end());
    next.index = static_cast<std::uint32_t>(split.size());
    const std::size_t begin = next.begin;
    split.push_back(std::move(next));
    next = {};
    next.begin = next.end = begin;
  };
  for (std::size_t s = bucket.segments.size(); s-- > 0;) {
    const codec::Segment& segment = bucket.segments[s];
    const std::size_t length = longest_segment(segment, compressor, split_values);
    for (std::size_t r = (segment.count + length - 1) / length; r-- > 0;) {
      codec::Segment part = segment;
      part.first_index += r * length;
      part.begin += r * length;
      part.count = std::min(length, segment.count - r * length);
      // A little more than requested, so that a bias is not sent alone.
      if (next.count() + part.count > split_values + split_values / 4) close();
      next.begin = part.begin;
      next.segments.push_back(part);
    }
  }
  close();
}

}  // namespace

std::vector<Range> ranges_of(std::span<const FusionBucket> buckets) {
  std::vector<Range> ranges, merged;
  for (const FusionBucket& bucket : buckets) ranges.push_back({bucket.begin, bucket.end});
  std::ranges::sort(ranges, {}, &Range::begin);
  for (const Range& range : ranges) {
    if (!merged.empty() && merged.back().end == range.begin)
      merged.back().end = range.end;
    else
      merged.push_back(range);
  }
  return merged;
}

std::vector<double> ready_times(std::span<const FusionBucket> buckets, const Layout& layout,
                                std::span<const double> slices) {
  EQT_CHECK(slices.size() == layout.size(), "{} times of {} slices", slices.size(), layout.size());
  std::vector<double> times;
  double last = 0;
  for (const FusionBucket& bucket : buckets) {
    for (std::size_t i = 0; i < layout.size(); ++i)
      if (layout[i].offset < bucket.end && layout[i].offset + layout[i].count > bucket.begin)
        last = std::max(last, slices[i]);
    times.push_back(last);
  }
  return times;
}

std::vector<std::vector<FusionBucket>> fragments_of(std::span<const FusionBucket> buckets,
                                                    std::size_t fragments) {
  EQT_CHECK(fragments > 0 && fragments <= buckets.size(), "{} fragments of {} buckets", fragments,
            buckets.size());
  std::vector<std::vector<FusionBucket>> parts(fragments);
  for (std::size_t j = 0; j < buckets.size(); ++j) parts[j % fragments].push_back(buckets[j]);
  return parts;
}

bool is_compressed(const TensorSlice& slice, std::size_t skip_below) {
  return slice.shape.size() > 1 && slice.count >= skip_below;
}

bool needs_whole_slices(const codec::Compressor& compressor) {
  const codec::Properties properties = compressor.properties();
  return properties.granule == 0 || properties.sparse || properties.shared_scale ||
         properties.votes;
}

std::size_t segment_length(const codec::Compressor& compressor) {
  const std::size_t granule = compressor.properties().granule;
  EQT_CHECK(granule > 0, "{} has no segments", codec::codec_name(compressor.id()));
  return granule * ((kMinSegment + granule - 1) / granule);
}

std::vector<FusionBucket> plan_buckets(const Layout& layout, const codec::Compressor& compressor,
                                       const PlanOptions& options) {
  EQT_CHECK(!layout.empty(), "an empty layout");
  const auto buckets = options.granularity == Granularity::layer
                           ? plan_by_layer(layout, options)
                           : plan_whole(total_count(layout), compressor, options);
  const std::size_t split_values = split_length(total_count(layout), options);
  std::vector<FusionBucket> split;
  for (const FusionBucket& bucket : buckets) split_bucket(bucket, compressor, split_values, split);
  return split;
}

}  // namespace eqt::pipeline
