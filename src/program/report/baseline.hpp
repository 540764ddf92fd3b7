// SPDX-License-Identifier: Apache-2.0
// The group of runs that another group is compared with.

#pragma once

#include <vector>

#include "report/group.hpp"

namespace eqt::report {

/// The group that sends float32 and is nearest to `group`: it differs in the fewest settings
/// besides the compressor's own. For a group of float32 runs with gossip or local SGD, it is the
/// nearest one that averages gradients in each step. Null if there is none, or if several are
/// equally near.
const Group* baseline_of(const Group& group, const std::vector<Group>& groups);

}  // namespace eqt::report
