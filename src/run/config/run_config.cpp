// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "codec/catalogue.hpp"
#include "config/checks.hpp"
#include "config/fields.hpp"
#include "config/keys_read.hpp"
#include "config/nearest.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

/// A value that somebody gave for a key, and who.
struct GivenValue {
  Json value;
  std::string where;
};

using GivenByKey = std::map<std::string, GivenValue, std::less<>>;

/// The names in a section ("" at the top): "name, bits, ...".
std::string names_in(std::string_view section) {
  std::vector<std::string> names;
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  for (const Field& field : fields()) {
    if (!field.key.starts_with(prefix)) continue;
    const std::string name =
        field.key.substr(prefix.size(), field.key.find('.', prefix.size()) - prefix.size());
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void unknown_key(const std::string& key, bool holds_object, const std::string& where) {
  std::vector<std::string> candidates;
  if (holds_object)
    for (const Choice& section : sections()) candidates.push_back(section.name);
  else
    for (const Field& field : fields()) candidates.push_back(field.key);
  if (const std::string* const near = close_key(key, candidates))
    fail(Kind::usage,
         "unknown key {} in {}; the nearest is \"{}\", and \"equant-train schema\" shows all keys",
         shown_text(key), where, *near);
  std::string section = key.substr(0, std::min(key.rfind('.'), key.size()));
  if (!is_section(section)) section.clear();
  fail(Kind::usage,
       "unknown key {} in {}; the keys {} are {}, and \"equant-train schema\" explains all",
       shown_text(key), where, section.empty() ? "of a config" : "of " + section,
       names_in(section));
}

/// Collects the leaves of `object`, whose dotted name is `prefix` ("" at the top).
void read_object(const Json& object, const std::string& prefix, const std::string& origin,
                 GivenByKey& given) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    if (key == "$schema") {  // what editors check the file by
      if (!value.is_string())
        fail(Kind::usage, "$schema in {}: expected the place of a JSON Schema, found {}", origin,
             shown(value));
      continue;
    }
    if (name.find('.') != std::string::npos && (find_field(key) || is_section(key)))
      fail(Kind::usage,
           "{}: expected nested objects, found the dotted key {}; write one object for each part",
           origin, shown_text(key));
    if (is_section(key)) {
      if (!value.is_object())
        fail(Kind::usage, "{} in {}: expected an object with keys, found {}", key, origin,
             shown(value));
      read_object(value, key, origin, given);
    } else if (find_field(key)) {
      given[key] = {value, origin};
    } else {
      unknown_key(key, value.is_object(), origin);
    }
  }
}

/// The value of `text`: JSON if it is JSON, else a string. A text key takes `text` as it is unless
/// it is a JSON string, so that a name made of digits needs no second pair of quotes.
Json set_value(const Field& field, const std::string& text, const std::string& where) {
  Json value = parse_value(text, where);
  if (value.is_discarded()) return text;
  if (field.type != FieldType::text || value.is_string()) return value;
  if (field.nullable && value.is_null()) return value;
  return text;
}

void read_set(const std::string& set, GivenByKey& given) {
  const std::string where = "--set " + shown_text(set);
  const std::size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(Kind::usage, "{}: expected KEY=VALUE, as in --set optimizer.learning_rate=0.05", where);
  const std::string key = set.substr(0, equals);
  if (is_section(key))
    fail(Kind::usage,
         "{}: expected the name of one key, found the section \"{}\"; write {}.KEY=VALUE", where,
         key, key);
  const Field* field = find_field(key);
  if (!field) unknown_key(key, false, where);
  given[key] = {set_value(*field, set.substr(equals + 1), where), where};
}

/// A file chooses these keys of the section compressor for the one that it names, and another one
/// refuses them.
constexpr std::string_view kOfOneCompressor[] = {"rate",       "rounding", "levels",
                                                 "elasticity", "table",    "unbiased"};

/// Leaves out what the file says of these keys if --set names a compressor that does not read them.
void leave_to_own_compressor(const GivenByKey& sets, GivenByKey& file) {
  const auto named = sets.find("compressor.name");
  if (named == sets.end() || !named->second.value.is_string()) return;
  const auto* const row = codec::CompressorRow::all().find(named->second.value.get<std::string>());
  if (row == nullptr) return;
  for (const std::string_view name : kOfOneCompressor) {
    const auto found = file.find(fmt::format("compressor.{}", name));
    if (found == file.end() || row->reads.has(*compressor_option(name))) continue;
    check_value(*find_field(found->first), found->second.value, found->second.where);
    file.erase(found);
  }
}

/// Sets the values that depend on other keys, where nobody gave them.
void resolve(const GivenByKey& given, RunConfig& config) {
  choose_compressor_defaults([&](std::string_view key) { return given.contains(key); },
                             config.compressor);
  // Studies of gossip are about what ranks own; where all share a model, the data is everyone's.
  if (!given.contains("data.partition.reshuffle"))
    config.data.partition.reshuffle =
        config.data.partition.kind->reshuffles && config.synchronization.algorithm->averages();
  // With a memory the grades are those that need one.
  if (config.compressor.name->reads.has(codec::Option::menu) &&
      config.synchronization.error_feedback == ErrorFeedback::ef14 &&
      !given.contains("compressor.menu"))
    config.compressor.menu = codec::menu_of_rates();
  config.compressor.damped = needs_damping(config);
}

RunConfig config_of(const GivenByKey& given) {
  RunConfig config;
  for (const Field& field : fields()) {
    const auto found = given.find(field.key);
    if (found == given.end()) continue;
    check_value(field, found->second.value, found->second.where);
    field.write(config, found->second.value);
  }
  resolve(given, config);
  return config;
}

}  // namespace

RunConfig parse_config(const std::string& json_text, const std::string& origin,
                       const std::vector<std::string>& sets) {
  GivenByKey given;
  read_object(parse_document(json_text, origin), "", origin, given);
  GivenByKey by_set;
  for (const std::string& set : sets) read_set(set, by_set);
  leave_to_own_compressor(by_set, given);
  by_set.merge(given);
  const RunConfig config = config_of(by_set);
  check_combinations(config, sets.empty() ? origin : origin + " with --set");
  return config;
}

std::set<std::string, std::less<>> deciding_keys(const RunConfig& config) {
  std::set<std::string, std::less<>> keys;
  GivenByKey given;
  // A key may have to be given because of another one that chooses its default.
  for (bool more = true; more;) {
    more = false;
    const RunConfig found = config_of(given);
    for (const Field& field : fields()) {
      if (keys.contains(field.key) || field.read(found) == field.read(config)) continue;
      keys.insert(field.key);
      given[field.key] = {field.read(config), field.key};
      more = true;
    }
  }
  return keys;
}

}  // namespace eqt::config
