// What a group of runs is compared with.

#pragma once

#include <vector>

#include "report/group.hpp"

namespace eqt::report {

/// The group that travels as float32 and is nearest to `group`: it differs in the fewest settings
/// beside the compressor's own. Of a group that is float32 itself, but gossips or averages seldom,
/// the nearest one that averages gradients in each step. Null where there is none, or several are
/// as near.
const Group* baseline_of(const Group& group, const std::vector<Group>& groups);

}  // namespace eqt::report
