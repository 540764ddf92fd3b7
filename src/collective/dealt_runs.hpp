// Which rank is responsible for which run of values.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pipeline/plan.hpp"

namespace eqt::collective {

/// The runs of one fusion bucket by rank, in ascending order each.
using DealtRuns = std::vector<std::vector<codec::Segment>>;

/// Cuts each bucket into runs and deals them to ranks in turn, from the last value of the model to
/// the first: fusion buckets travel in that order, so whose a value is depends on its place in the
/// model and not on where buckets are cut. Returns one deal per bucket.
/// @pre !pipeline::needs_whole_slices(compressor)
std::vector<DealtRuns> deal_runs(std::span<const pipeline::FusionBucket> plan,
                                 const codec::Compressor& compressor, std::size_t ranks);

}  // namespace eqt::collective
