// SPDX-License-Identifier: Apache-2.0
// What runs would take on boards behind links of some rates, and until which accuracy.

#pragma once

#include <set>
#include <string>
#include <vector>

#include "figures/table.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Column;
using figures::Table;

/// A row per finished group: the main figure, bits per value, bytes per rank and the planned
/// seconds of all its steps on links of each rate. No rows if no run was planned.
Table planned_table(const std::vector<Group>& groups);

/// A row per finished group for 85 % and for 90 % of the plateau_of(): epochs, bytes per rank,
/// measured and planned seconds until the test is as good, mean and deviation over seeds, on a
/// straight line between tests. No rows for a single group, or where less is better.
Table targets_table(const std::vector<Group>& groups);

/// The greatest mean at the end of groups that compress nothing, in float32, by allreduce; without
/// one, of any finished group. Empty if none has the figure.
Figure plateau_of(const std::vector<Group>& groups);

/// The rates for which a run of these was planned [Mb/s].
std::set<double> planned_rates(const std::vector<Group>& groups);
/// All steps of a run on a link of such a rate; empty without a plan.
Figure planned_seconds(const Run& run, double megabits);
Column planned_column(double megabits);
/// Says in one sentence by which collective, or algorithm of gossip, the finished groups' bytes
/// were sent and their seconds are planned.
std::string own_collectives(const std::vector<Group>& groups);

}  // namespace eqt::report
