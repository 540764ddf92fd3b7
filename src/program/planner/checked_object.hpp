// SPDX-License-Identifier: Apache-2.0
// Objects of JSON files whose keys are checked by a table. Private to the room.

#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace eqt::planner {

// Dividing by smaller numbers would leave the range of a double.
inline constexpr double kLeastAbove = 1e-9;

/// A key of an object: the table from which the reader and the schema are made.
struct Key {
  const char* name;
  enum class Type { number, integer, text, flag, object, list } type;
  const char* about;
  bool required = false;
  double least = 0;    // numbers
  bool above = false;  // `least`, by kLeastAbove: no smaller number is a time or a speed
  double most = 1e15;
  bool may_be_null = false;  // which is as if it were not there
};

/// Returns true if a text can stand in tables: it is not empty, and visible() as it is.
bool is_name(const std::string& text);

/// A line of a file of JSON lines.
struct JsonLine {
  std::string place;  // "FILE:3"
  config::Json value;
};

/// The lines that are not empty.
/// @param what a line is, for errors: "a line of \"bench codecs --json\""
/// @throws Error{usage} for a line that is no object, or lacks `key`
std::vector<JsonLine> read_json_lines(const std::string& text, const std::string& origin,
                                      const char* what, const char* key);

/// Says whether an object may have keys beside those of its table.
enum class OtherKeys { refused, ignored };

/// An object whose keys have been checked.
class CheckedObject {
 public:
  /// Keeps a reference to `json`. @param place names file and object in errors
  /// @throws Error{usage}: no object, an unknown key (with the nearest), one that is missing, a
  /// wrong type, a number out of range, a text that is empty or not visible()
  CheckedObject(const config::Json& json, std::span<const Key> keys, std::string place,
                OtherKeys others = OtherKeys::refused);

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  double number(const char* key, double otherwise) const {
    return has(key) ? json_.at(key).get<double>() : otherwise;
  }
  int integer(const char* key, int otherwise) const {
    return has(key) ? json_.at(key).get<int>() : otherwise;
  }
  std::string text(const char* key, const std::string& otherwise = {}) const {
    return has(key) ? json_.at(key).get<std::string>() : otherwise;
  }
  bool flag(const char* key) const { return has(key) && json_.at(key).get<bool>(); }
  CheckedObject object(const char* key, std::span<const Key> keys) const {
    return {json_.at(key), keys, place_ + "." + key};
  }
  /// A list, or an object of named things. @pre has(key)
  const config::Json& list(const char* key) const { return json_.at(key); }
  const std::string& place() const { return place_; }

 private:
  void check(const Key& key, const config::Json& value) const;

  const config::Json& json_;
  std::string place_;
};

/// JSON Schema of an object with these keys.
nlohmann::ordered_json schema_of(std::span<const Key> keys);

}  // namespace eqt::planner
