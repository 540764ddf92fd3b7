// SPDX-License-Identifier: Apache-2.0
#include "analyze/values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "setup/build_messages.hpp"
#include "theory/sampling.hpp"

namespace eqt::analyze {

DumpedGradient values_for(const ValuesQuestion& question) {
  if (!question.file.empty()) return read_dumped_gradient(question.file);
  DumpedGradient gradient;
  gradient.values = theory::draw(question.source, question.values, question.seed);
  gradient.layout = {{.name = question.source,
                      .shape = {static_cast<std::int64_t>(question.values)},
                      .offset = 0,
                      .count = question.values}};
  return gradient;
}

std::vector<codec::Segment> segments_for(const Subject& subject, const DumpedGradient& gradient) {
  if (!gradient.has_layout) return theory::one_segment(gradient.values.size());
  std::vector<codec::Segment> segments;
  for (const pipeline::FusionBucket& bucket :
       setup::make_plan(subject.config, gradient.layout, *subject.compressor))
    segments.insert(segments.end(), bucket.segments.begin(), bucket.segments.end());
  std::ranges::sort(segments, {}, &codec::Segment::begin);
  return segments;
}

std::string describe_values(const ValuesQuestion& question, const DumpedGradient& gradient) {
  if (question.file.empty())
    return fmt::format("{} values of source {}, seed {}", gradient.values.size(), question.source,
                       question.seed);
  std::string text = fmt::format("{}: {} values", question.file, gradient.values.size());
  if (gradient.has_layout) text += fmt::format(" in {} tensors", gradient.layout.size());
  if (gradient.step) text += fmt::format(", step {}", *gradient.step);
  if (gradient.rank) text += fmt::format(", rank {}", *gradient.rank);
  return text;
}

}  // namespace eqt::analyze
