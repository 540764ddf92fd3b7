// SPDX-License-Identifier: Apache-2.0
// Tables of papers in their layout, with our runs next to the published values.

#pragma once

#include <string>
#include <vector>

#include "figures/table.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Table;

/// The tables of these names, each followed by a table of its conditions, published and ours;
/// without groups that are unfinished beside finished ones.
std::vector<Table> published_tables(const std::vector<std::string>& names,
                                    const std::vector<Group>& all);

/// Seconds of a step (Cp, En, De, Tx, T; Sp: the change of T with more boards) next to published
/// minutes of an epoch.
Table scalability_table(const std::vector<Group>& groups);
/// Test accuracy by network, data, scheme, its setting and boards.
Table accuracy_table(const std::vector<Group>& groups);
/// Test accuracy by network, graph, nodes, share left out and skew; a column per algorithm and
/// precision.
Table decentralised_table(const std::vector<Group>& groups);

}  // namespace eqt::report
