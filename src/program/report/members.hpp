// SPDX-License-Identifier: Apache-2.0
// Reads small files whole, and members of JSON objects from files: typed and checked; every error
// names the place.

#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "figures/statistics.hpp"

namespace eqt::report {

using figures::Figure;

/// Reads members of one object; a member that is absent or null is empty, 0 or "".
class Members {
 public:
  /// @param place names file and line in errors
  /// @throws Error{data} unless `object` is one
  Members(const nlohmann::json& object, std::string place);

  /// @throws Error{data} unless a number; empty if it is not finite
  Figure figure(const char* key) const;
  /// @throws Error{data} unless a whole number from 0
  std::uint64_t count(const char* key) const;
  /// visible(). @throws Error{data} unless a string
  std::string text(const char* key) const;
  /// Each visible(). @throws Error{data} unless a list of strings
  std::vector<std::string> texts(const char* key) const;
  bool flag(const char* key) const;
  /// True if it exists and is null: a figure that was not finite, or did not apply.
  bool is_null(const char* key) const;
  /// The object inside; an empty one if it is absent.
  Members inside(const char* key) const;

  const nlohmann::json& object() const { return object_; }
  const std::string& place() const { return place_; }
  [[noreturn]] void fail_member(const char* key, const char* expected) const;

 private:
  const nlohmann::json* find(const char* key) const;

  const nlohmann::json& object_;
  std::string place_;
};

/// JSON text, also with NaN and Infinity, which become null. Members more than 32 levels deep are
/// dropped.
/// @return whether it is JSON, and how many of these words there were
std::pair<nlohmann::json, std::size_t> parse_lenient(const std::string& text);

/// The text of a file of at most 16 MiB; empty if there is no such file.
/// @throws Error{data} for a larger file, or one that cannot be read
std::string read_document(const std::filesystem::path& path);

}  // namespace eqt::report
