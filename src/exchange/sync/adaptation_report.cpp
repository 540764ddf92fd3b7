// SPDX-License-Identifier: Apache-2.0
#include "sync/adaptation_report.hpp"

#include <limits>
#include <string>
#include <utility>

namespace eqt::sync {

void report_adaptation(adaptation::Adaptation& adaptation, StepId step, const Layout& layout,
                       SyncResult& result) {
  if (auto found = adaptation.take_findings()) {
    metrics::NoiseRecord noise{.step = step + 1, .noise_scale = found->noise_scale};
    noise.noise_share = found->gradient_noise > 0 ? found->added_noise / found->gradient_noise
                                                  : std::numeric_limits<double>::quiet_NaN();
    for (const adaptation::Findings::Slice& slice : found->slices) {
      noise.slices.push_back({.name = slice_name(layout, slice.slice),
                              .gradient_noise = slice.gradient_noise,
                              .grade = slice.grade});
    }
    result.noise = std::move(noise);
  }
  if (auto decision = adaptation.take_decision())
    result.decisions.push_back({.step = step + 1,
                                .kind = adaptation::kGradeDecisions,
                                .values = std::move(decision->values),
                                .why = std::move(decision->why)});
}

}  // namespace eqt::sync
