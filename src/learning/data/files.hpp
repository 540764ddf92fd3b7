// SPDX-License-Identifier: Apache-2.0
// Reads files of data sets, checks their sizes, and shows text from them in messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// The bytes of a plain or gzip file that must hold exactly `expected` bytes once decompressed.
/// Never reads or allocates more, for any contents of the file.
/// @throws Error{data} naming the file, the expected and found size, and `remedy`.
std::vector<std::uint8_t> read_exactly(const std::filesystem::path& file, std::size_t expected,
                                       std::string_view remedy);

/// The first of `names` that exists in `folder`.
/// @throws Error{data} naming folder, first name and `remedy` when none does.
std::filesystem::path find_file(const std::filesystem::path& folder,
                                std::initializer_list<std::string_view> names,
                                std::string_view remedy);

/// Returns the name of a set's test part: the first of test, val, valid and validation that is
/// there; "" for none. Other names than test, and further parts, which are left out, get a note.
/// @param ending of the names in notes: "/", ".csv"
std::string find_test_part(const std::function<bool(std::string_view)>& is_there,
                           std::string_view ending, std::vector<std::string>& notes);

/// `folder / subfolder` when that holds the data set's files (archives unpack to it), else
/// `folder`.
/// @throws Error{data} when `folder` is not a folder.
std::filesystem::path find_folder(const std::filesystem::path& folder, std::string_view subfolder,
                                  std::string_view remedy);

/// `text` in quotes, on one line and cut to a length that suits a message; bytes that are not
/// printable ASCII become '?'.
std::string shown(std::string_view text);

}  // namespace eqt::data
