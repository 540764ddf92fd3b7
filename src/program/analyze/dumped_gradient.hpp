// SPDX-License-Identifier: Apache-2.0
// A gradient that a run wrote with output.dump_gradients.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/layout.hpp"

namespace eqt::analyze {

struct DumpedGradient {
  std::vector<float> values;
  Layout layout;  // one tensor of all values if there is no layout file
  bool has_layout = false;
  std::optional<StepId> step;  // as the layout says
  std::optional<std::uint64_t> rank;
};

/// Reads the tensors, step and rank of a layout's text into `gradient`, which has the values
/// already. `origin` names the text in messages.
/// @throws Error{data}
void parse_gradient_layout(const std::string& text, const std::string& origin,
                           DumpedGradient& gradient);

/// FILE.npy and, if it is there, its layout FILE.json with {"tensors": [{"name", "offset", "count",
/// "shape"}], "step", "rank"}.
/// @throws Error{data} where a file is not what it should be or the two do not fit together
DumpedGradient read_dumped_gradient(const std::string& path);

}  // namespace eqt::analyze
