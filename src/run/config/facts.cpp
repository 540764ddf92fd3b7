// SPDX-License-Identifier: Apache-2.0
#include "config/facts.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

constexpr const char* kAbsent = "nothing";

/// The value of the fact called `name`.
std::string value_in(const Facts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? kAbsent : found->value;
}

}  // namespace

Facts config_facts(const RunConfig& config) {
  Facts facts;
  for (const Field& field : fields()) facts.push_back({field.key, field.read(config).dump()});
  return facts;
}

std::string packed(const Facts& facts) {
  Json list = Json::array();
  for (const Fact& fact : facts) list.push_back({fact.name, fact.value});
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Facts unpacked(const std::string& text, std::string_view whose, Kind kind) {
  const Json list = Json::parse(text, nullptr, false);
  Facts facts;
  bool good = list.is_array();
  for (std::size_t i = 0; good && i < list.size(); ++i) {
    const Json& pair = list[i];
    good = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    if (good) facts.push_back({pair[0], pair[1]});
  }
  if (!good)
    fail(kind,
         "expected {} as pairs of names and values, found {}; start every rank with the same "
         "equant-train",
         whose, shown_text(text));
  return facts;
}

std::string differences(const Facts& expected, const Facts& found) {
  std::string text;
  const auto compare = [&](const std::string& name) {
    const std::string here = value_in(found, name), there = value_in(expected, name);
    if (here == there) return;
    text += fmt::format("{}{} {} instead of {}", text.empty() ? "" : ", ", name, here, there);
  };
  for (const Fact& fact : found) compare(fact.name);
  for (const Fact& fact : expected)
    if (std::ranges::find(found, fact.name, &Fact::name) == found.end()) compare(fact.name);
  return text;
}

}  // namespace eqt::config
