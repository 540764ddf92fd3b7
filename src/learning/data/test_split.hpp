// SPDX-License-Identifier: Apache-2.0
// The test set of data that have none of their own.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// Says of each sample whether it is for the test: a part of each class, a pure function of seed,
/// class name and the number of its samples; at least one, and at least one stays.
/// @param labels (n) of the samples, in [0, classes.size())
/// @param samples what a sample is called in messages: "pictures"
/// @param remedy what else there may be: "a folder test/"
/// @param place said before a class in messages, of which the split is no function: "FILE, class "
/// @throws Error{data} if a class has a single sample
std::vector<bool> samples_for_test(std::span<const int> labels,
                                   const std::vector<std::string>& classes, double fraction,
                                   std::uint64_t seed, std::string_view samples,
                                   std::string_view remedy, std::string_view place = "");

/// True where data.path names a table itself, of which a part is the test set.
bool is_table_file(const std::filesystem::path& path);

}  // namespace eqt::data
