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

/// Replaces bytes that a terminal does not show by question marks, for messages.
std::string printable(std::string_view text);

/// Returns at most 60 bytes of a name, printable.
std::string shown_name(std::string_view name);

/// Returns what people read: letters with their accents (Unicode's canonical equivalence), upper
/// and lower case being the same.
std::string as_read(std::string_view name);

/// '"é" and "é" (U+00E9 and U+0065 U+0301)': both names and the characters in which they differ.
std::string told_apart(std::string_view first, std::string_view second);

/// Two names that are written differently and read the same, told_apart(), if there are any.
std::optional<std::string> names_read_alike(const std::vector<std::string>& names);

/// Messages about such names are "WHERE: kReadableNames, found NAMES; kReadableRemedy".
inline constexpr std::string_view kReadableNames =
    "expected names of classes that differ by more than upper and lower case or the coding of "
    "accents";
inline constexpr std::string_view kReadableRemedy = "write them in one way, or rename one";

/// @throws Error{data} that begins with `where`, for names_read_alike()
void require_readable_names(const std::vector<std::string>& names, const std::string& where);

/// Checks a name that is none of `known`.
/// @throws Error{data} that begins with `where` if it reads like one of them
void require_unlike(const std::vector<std::string>& known, std::string_view name,
                    const std::string& where);

/// Names go into records and tables.
/// @param where begins the message
/// @throws Error{data}: empty, not UTF-8, or with control characters
void require_class_name(std::string_view name, const std::string& where);

/// @param least 1 on a rank that has a part of what is learnt, otherwise 2
/// @throws Error{data}: fewer names, and as require_class_name() and require_readable_names();
/// `where` names the folder
void require_usable_classes(const std::vector<std::string>& names, const std::string& where,
                            std::size_t least);

/// The file classes.txt of the folder; empty if there is none.
std::filesystem::path class_names_file(const std::filesystem::path& folder);

/// The lines of a file classes.txt, without space around them, if there is one in the folder.
/// @throws Error{data} for one that is empty, or with a name twice, and as require_class_name() and
/// require_readable_names()
std::optional<std::vector<std::string>> read_class_names(const std::filesystem::path& folder);

}  // namespace eqt::data
