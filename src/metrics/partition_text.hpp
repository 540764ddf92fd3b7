// What the console says about a partition that is not IID: a pure function of the record.

#pragma once

#include <string>
#include <vector>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// A heading and a line per rank with its samples and its most frequent classes, at most 70 columns
/// wide, so that 80 hold them with the time in front; the first 16 ranks stand for more. Nothing if
/// the partition is IID.
std::vector<std::string> partition_lines(const PartitionRecord& record);

}  // namespace eqt::metrics
