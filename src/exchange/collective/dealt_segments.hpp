// SPDX-License-Identifier: Apache-2.0
// Assigns ranges of values to ranks.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pipeline/plan.hpp"

namespace eqt::collective {

/// The segments of one fusion bucket by rank, each list ascending.
using DealtSegments = std::vector<std::vector<codec::Segment>>;

/// Cuts each bucket into segments and assigns each to the rank that owns the fewest values, from
/// the last value of the model to the first. Fusion buckets are sent in that order, so the owner of
/// a value depends on its place in the model and not on where buckets are cut. Returns one
/// assignment per bucket.
/// @pre !pipeline::needs_whole_slices(compressor)
std::vector<DealtSegments> deal_segments(std::span<const pipeline::FusionBucket> plan,
                                         const codec::Compressor& compressor, std::size_t ranks);

}  // namespace eqt::collective
