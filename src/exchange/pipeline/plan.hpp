// SPDX-License-Identifier: Apache-2.0
// The plan of a synchronization: which values are sent together, and in which segments they are
// encoded.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/message.hpp"
#include "codec/options.hpp"
#include "core/layout.hpp"

namespace eqt::pipeline {

/// The most buckets that may be processed at the same time.
inline constexpr std::size_t kMaxSlots = 8;

/// Values that are sent together: a contiguous part of the flat gradient, sent as soon as the
/// backward pass has produced it.
struct FusionBucket {
  std::uint32_t index = 0;               // in the order of sending: 0 has the last layers
  std::size_t begin = 0, end = 0;        // in the flat buffer [floats]
  std::vector<codec::Segment> segments;  // tile [begin, end) in ascending order
  std::size_t count() const { return end - begin; }
};

/// Values [begin, end) of a flat buffer.
struct Range {
  std::size_t begin = 0, end = 0;
};

/// The values of these buckets, in ascending order; neighbours are one range.
std::vector<Range> ranges_of(std::span<const FusionBucket> buckets);

/// When buckets can be sent, which start in their order, from when each slice of the layout is
/// ready, in any unit of time. Never descending.
std::vector<double> ready_times(std::span<const FusionBucket> buckets, const Layout& layout,
                                std::span<const double> slices);

/// Buckets j with j mod fragments = f, for each f: the fragments of Streaming DiLoCo (A. Douillard
/// et al., 2025, arXiv:2501.18512), in its strided form.
/// @pre 0 < fragments <= buckets.size()
std::vector<std::vector<FusionBucket>> fragments_of(std::span<const FusionBucket> buckets,
                                                    std::size_t fragments);

/// Says what is encoded as one vector: each tensor, or the whole flat gradient.
using codec::Granularity;

struct PlanOptions {
  Granularity granularity = Granularity::layer;
  std::size_t skip_below = 1024;  // layer: smaller and one-dimensional tensors stay raw [values]
  codec::SmallTensors small_tensors = codec::SmallTensors::float32;  // layer: how raw ones are sent
  std::size_t bucket_bytes = std::size_t{4} << 20;  // of float32 values, at least one tensor
  // Buckets are split into smaller ones of about this many bytes of float32 values, if the codec
  // allows it: while one is sent, others are encoded and decoded. 0: a sixteenth of the gradient,
  // from 64 KiB to 1 MiB, so that also most of a small model is sent during the backward pass.
  std::size_t split_bytes = 0;
};

/// Slice number of the only range of Granularity::model.
inline constexpr std::uint32_t kWholeModel = 0xEFFFFFFFu;

/// Cuts a layout into fusion buckets in the order of sending (last layers first). Which values
/// share a norm, a random stream or a top-k depends only on layout, granularity and compressor, so
/// the decoded values do not depend on bucket_bytes.
std::vector<FusionBucket> plan_buckets(const Layout& layout, const codec::Compressor& compressor,
                                       const PlanOptions& options);

/// Granularity::layer: true if the tensor is compressed, false if it is sent as float32 or int8.
bool is_compressed(const TensorSlice& slice, std::size_t skip_below);

/// True for codecs whose slices must stay whole (a top-k, a scale per tensor).
bool needs_whole_slices(const codec::Compressor& compressor);

/// The shortest ranges of raw segments into which collectives cut [values]; shorter ones would
/// consist mostly of headers.
inline constexpr std::size_t kMinSegment = 8192;

/// The shortest ranges into which collectives cut a slice [values]: a multiple of the codec's
/// granule, long enough that headers add few bytes.
/// @pre !needs_whole_slices(compressor)
std::size_t segment_length(const codec::Compressor& compressor);

}  // namespace eqt::pipeline
