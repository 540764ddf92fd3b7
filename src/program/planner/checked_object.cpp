// SPDX-License-Identifier: Apache-2.0
#include "planner/checked_object.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include "config/nearest.hpp"
#include "core/error.hpp"
#include "core/visible.hpp"

namespace eqt::planner {

using config::Json;
using config::shown;
using nlohmann::ordered_json;
using Type = Key::Type;

namespace {

double least_of(const Key& key) { return key.above ? key.least + kLeastAbove : key.least; }

}  // namespace

bool is_name(const std::string& text) { return !text.empty() && is_visible(text); }

std::vector<JsonLine> read_json_lines(const std::string& text, const std::string& origin,
                                      const char* what, const char* key) {
  std::vector<JsonLine> result;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", origin, number);
    Json json = config::parse_value(line, place);
    if (!json.is_object() || !json.contains(key))
      fail(Kind::usage, "{}: expected {}, found {}", place, what,
           json.is_discarded() ? config::shown_text(line) : shown(json));
    result.push_back({place, std::move(json)});
  }
  return result;
}

CheckedObject::CheckedObject(const Json& json, std::span<const Key> keys, std::string place,
                             OtherKeys others)
    : json_(json), place_(std::move(place)) {
  if (!json.is_object()) fail(Kind::usage, "{}: expected an object, found {}", place_, shown(json));
  std::vector<std::string> names;
  for (const Key& key : keys) names.emplace_back(key.name);
  for (const auto& [name, value] : json.items()) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      if (others == OtherKeys::ignored) continue;
      const std::string* const near = config::close_name(name, names);
      fail(Kind::usage, "{}: unknown key {}; {}", place_, config::shown_text(name),
           near != nullptr ? fmt::format("the nearest is \"{}\"", *near)
                           : fmt::format("its keys are {}", fmt::join(names, ", ")));
    }
    check(keys[static_cast<std::size_t>(found - names.begin())], value);
  }
  for (const Key& key : keys)
    if (key.required && !json.contains(key.name))
      fail(Kind::usage, "{}: expected the key \"{}\" ({}), found none", place_, key.name,
           key.about);
}

void CheckedObject::check(const Key& key, const Json& value) const {
  if (key.may_be_null && value.is_null()) return;
  switch (key.type) {
    case Type::number:
    case Type::integer: {
      const bool right = key.type == Type::number ? value.is_number() : value.is_number_integer();
      const double number = value.is_number() ? value.get<double>() : 0;
      if (right && std::isfinite(number) && number <= key.most && number >= least_of(key)) return;
      fail(Kind::usage, "{}.{}: expected {} {} {:g} and at most {:g} ({}), found {}", place_,
           key.name, key.type == Type::number ? "a number" : "an integer",
           key.above ? "above 0, of at least" : "of at least", least_of(key), key.most, key.about,
           shown(value));
    }
    case Type::text:
      if (value.is_string() && is_name(value.get_ref<const std::string&>())) return;
      fail(Kind::usage, "{}.{}: expected a text without control characters ({}), found {}", place_,
           key.name, key.about, shown(value));
    case Type::flag:
      if (value.is_boolean()) return;
      fail(Kind::usage, "{}.{}: expected true or false ({}), found {}", place_, key.name, key.about,
           shown(value));
    case Type::object:
      if (value.is_object()) return;
      fail(Kind::usage, "{}.{}: expected an object ({}), found {}", place_, key.name, key.about,
           shown(value));
    case Type::list:
      if (value.is_array()) return;
      fail(Kind::usage, "{}.{}: expected a list ({}), found {}", place_, key.name, key.about,
           shown(value));
  }
}

ordered_json schema_of(std::span<const Key> keys) {
  ordered_json properties, required = ordered_json::array();
  for (const Key& key : keys) {
    ordered_json property = {{"description", key.about}};
    switch (key.type) {
      case Type::number:
        property["type"] = "number";
        break;
      case Type::integer:
        property["type"] = "integer";
        break;
      case Type::text:
        property["type"] = "string";
        break;
      case Type::flag:
        property["type"] = "boolean";
        break;
      case Type::object:
        property["type"] = "object";
        break;
      case Type::list:
        property["type"] = "array";
        break;
    }
    if (key.type == Type::number || key.type == Type::integer) {
      property["minimum"] = least_of(key);
      property["maximum"] = key.most;
    }
    properties[key.name] = property;
    if (key.required) required.push_back(key.name);
  }
  ordered_json schema = {{"type", "object"}, {"additionalProperties", false}};
  schema["properties"] = properties;
  if (!required.empty()) schema["required"] = required;
  return schema;
}

}  // namespace eqt::planner
