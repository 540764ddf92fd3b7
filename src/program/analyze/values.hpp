// SPDX-License-Identifier: Apache-2.0
// The values that `analyze variance` and `analyze bits` quantise, cut as training cuts them.

#pragma once

#include <vector>

#include "analyze/commands.hpp"
#include "analyze/dumped_gradient.hpp"
#include "analyze/subjects.hpp"
#include "codec/message.hpp"

namespace eqt::analyze {

/// A drawn vector, or a file's gradient. @throws Error{data}
DumpedGradient values_for(const ValuesQuestion& question);

/// The segments, and the values that are sent raw. A gradient with a layout is divided as in a run
/// with this compressor and otherwise default settings (including skip_below and granularity);
/// otherwise all values are one segment.
std::vector<codec::Segment> segments_for(const Subject& subject, const DumpedGradient& gradient);

/// "65536 values of source normal, seed 1" or "gradient.npy, step 120, rank 0".
std::string describe_values(const ValuesQuestion& question, const DumpedGradient& gradient);

}  // namespace eqt::analyze
