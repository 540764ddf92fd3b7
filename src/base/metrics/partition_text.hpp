// SPDX-License-Identifier: Apache-2.0
// The console's text about a partition that is not IID: a pure function of the record.

#pragma once

#include <string>
#include <vector>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// A heading and a line for each of the first 16 ranks with its samples and its most frequent
/// classes. Lines have at most 70 columns; with the time they have 80. Empty if the partition is
/// IID.
std::vector<std::string> partition_lines(const PartitionRecord& record);

}  // namespace eqt::metrics
