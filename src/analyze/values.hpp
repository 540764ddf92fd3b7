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

/// What is encoded on its own, and what travels raw. A gradient with a layout: as a run with this
/// compressor and otherwise default settings (skip_below and granularity included) would; else all
/// values as one run.
std::vector<codec::Segment> segments_for(const Subject& subject, const DumpedGradient& gradient);

/// "65536 values of source normal, seed 1" or "gradient.npy, step 120, rank 0".
std::string describe_values(const ValuesQuestion& question, const DumpedGradient& gradient);

}  // namespace eqt::analyze
