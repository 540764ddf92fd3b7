// SPDX-License-Identifier: Apache-2.0
// Names of classes, wherever they come from: folders, labels of texts, classes.txt.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// No set has more classes with names.
inline constexpr std::size_t kMaxClassNames = 65536;

/// Without space at its beginning and end.
std::string_view without_space(std::string_view text);

/// Letters of ASCII in lower case.
std::string lower_case(std::string_view text);

/// For messages: bytes that a terminal does not show are replaced by question marks.
std::string printable(std::string_view text);

/// Names go into records and tables.
/// @param where begins the message
/// @throws Error{data}: empty, not UTF-8, or with control characters
void require_class_name(std::string_view name, const std::string& where);

/// @param least 1 on a rank that has a part of what is learnt, otherwise 2
/// @throws Error{data}: fewer names, two that differ by case alone, and as require_class_name();
/// `where` names the folder
void require_usable_classes(const std::vector<std::string>& names, const std::string& where,
                            std::size_t least);

/// The lines of a file classes.txt, without space around them, if there is one in the folder.
/// @throws Error{data} for one that is empty, or with a name twice, and as require_class_name()
std::optional<std::vector<std::string>> read_class_names(const std::filesystem::path& folder);

}  // namespace eqt::data
