// SPDX-License-Identifier: Apache-2.0
// The schema and the reference agree with the checks.

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "config/fields.hpp"
#include "config_support.hpp"

using namespace eqt::config;
using test::parse;

namespace {

/// Calls visit(dotted key, schema) for every leaf of the schema's tree.
void walk(const Json& schema, const std::string& prefix,
          const std::function<void(const std::string&, const Json&)>& visit) {
  REQUIRE(schema.at("type") == "object");
  REQUIRE(schema.at("additionalProperties") == false);
  for (const auto& [name, inner] : schema.at("properties").items()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    CHECK_FALSE(inner.at("description").get<std::string>().empty());
    if (inner.contains("properties"))
      walk(inner, key, visit);
    else
      visit(key, inner);
  }
}

void walk_leaves(const std::function<void(const std::string&, const Json&)>& visit) {
  walk(Json::parse(config_schema()), "", visit);
}

/// True if the value itself is accepted; a combination with others may still be refused.
bool accepted(const std::string& key, const Json& value) {
  try {
    parse("{}", {"train.steps=5", "compressor.name=elastiquant", key + "=" + value.dump()});
  } catch (const eqt::Error& error) {
    const std::string what = error.what();
    return what.find(key + " in --set") == std::string::npos &&
           what.find("unknown name") == std::string::npos;
  }
  return true;
}

/// Other keys that a key needs.
std::vector<std::string> companions(const std::string& key) {
  const std::string algorithm = "synchronization.algorithm=";
  if (key == "synchronization.local_steps") return {algorithm + "local-sgd"};
  if (key.starts_with("synchronization.laq_")) return {algorithm + "laq", "optimizer.momentum=0"};
  if (key.starts_with("synchronization.local_steps_"))
    return {algorithm + "local-sgd", "synchronization.local_steps=qsr",
            "synchronization.local_steps_most=1000000000000"};
  if (key == "synchronization.delay")
    return {algorithm + "local-sgd", "synchronization.local_steps=1000000000000"};
  if (key == "synchronization.fragments")
    return {algorithm + "local-sgd", "synchronization.local_steps=1000000000000"};
  if (key == "synchronization.quorum" || key == "synchronization.grace_seconds")
    return {algorithm + "local-sgd", "synchronization.delay=auto", "synchronization.quorum=2"};
  if (key == "synchronization.outer.nesterov" || key == "synchronization.outer.by_rate")
    return {algorithm + "local-sgd", "synchronization.outer.momentum=0.9"};
  if (key.starts_with("synchronization.outer.")) return {algorithm + "local-sgd"};
  if (key == "synchronization.post_local_epochs")
    return {algorithm + "local-sgd", "synchronization.local_steps=2"};
  if (key == "synchronization.feedback_decay" || key == "compressor.small_tensors" ||
      key == "synchronization.momentum_correction")
    return {"compressor.name=topk"};
  if (key == "optimizer.iterations") return {"optimizer.name=muon"};
  if (key == "synchronization.ef21_momentum")
    return {"compressor.name=topk", "synchronization.error_feedback=ef21"};
  if (key.starts_with("synchronization.event_"))
    return {algorithm + "choco-sgd", "synchronization.event_threshold=2"};
  if (key == "synchronization.final_rounds") return {algorithm + "d-psgd"};
  if (key == "synchronization.resync_every") return {algorithm + "choco-sgd"};
  const auto& pictures = eqt::data::sets::folder.keys;
  if (key.starts_with("data.") && std::ranges::count(pictures, key.substr(5)) > 0)
    return {"data.name=folder"};
  if (key == "model.width") return {"model.name=mobilenet_v2"};
  if (key == "model.heads") return {"model.name=bert", "model.hidden=4096"};
  for (const std::string_view name : eqt::model::models::bert.keys)
    if (key == "model." + std::string(name)) return {"model.name=bert"};
  for (const std::string_view name : eqt::data::sets::text.keys)
    if (key == "data." + std::string(name)) return {"data.name=text"};
  return {};
}

}  // namespace

TEST_CASE("the schema names its draft and every key once", "[config]") {
  CHECK(Json::parse(config_schema()).at("$schema") ==
        "https://json-schema.org/draft/2020-12/schema");
  std::vector<std::string> in_schema, in_table;
  walk_leaves([&](const std::string& key, const Json&) { in_schema.push_back(key); });
  for (const Field& field : fields()) in_table.push_back(field.key);
  std::sort(in_schema.begin(), in_schema.end());
  std::sort(in_table.begin(), in_table.end());
  CHECK(in_schema == in_table);
  CHECK(std::adjacent_find(in_table.begin(), in_table.end()) == in_table.end());
}

TEST_CASE("the schema's defaults are those of an empty config", "[config]") {
  const Json resolved = Json::parse(resolved_json(parse("{}")));
  walk_leaves([&](const std::string& key, const Json& schema) {
    INFO(key);
    std::string pointer = "/" + key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    CHECK(schema.at("default") == resolved.at(Json::json_pointer(pointer)));
  });
}

TEST_CASE("the schema describes each name of a key", "[config]") {
  walk_leaves([&](const std::string& key, const Json& schema) {
    INFO(key);
    REQUIRE(schema.contains("enum") == schema.contains("enumDescriptions"));
    if (!schema.contains("enum")) return;
    const auto& choices = config_choices(key);
    REQUIRE(schema.at("enumDescriptions").size() == choices.size());
    for (std::size_t i = 0; i < choices.size(); ++i)
      CHECK(schema.at("enumDescriptions")[i] == choices[i].about);
  });
}

TEST_CASE("a config may name its schema", "[config]") {
  CHECK(parse(R"({"$schema": "https://example.org/schema.json", "seed": 7})") ==
        parse(R"({"seed": 7})"));
  CHECK(Json::parse(config_schema()).at("patternProperties").contains("^\\$schema$"));
  CHECK_THAT(test::rejection(R"({"$schema": 1})"),
             Catch::Matchers::ContainsSubstring("$schema in a.json"));
  CHECK_THAT(test::rejection(R"({"train": {"$schema": "a"}})"),
             Catch::Matchers::ContainsSubstring("train.$schema"));
}

TEST_CASE("the schema's bounds are those of the checks", "[config]") {
  int bounds = 0;
  walk_leaves([&](const std::string& key, const Json& leaf) {
    INFO(key);
    const Json schema = leaf.contains("oneOf") ? leaf.at("oneOf").at(1) : leaf;
    const bool whole = schema.value("type", Json()) == "integer";
    const auto step = [&](double x, double direction) {
      return whole ? Json(static_cast<std::int64_t>(x + direction))
                   : Json(std::nextafter(x, direction * HUGE_VAL));
    };
    for (const auto& [name, outwards] : {std::pair{"inimum", -1.0}, std::pair{"aximum", 1.0}}) {
      if (const auto at = schema.find(std::string("m") + name); at != schema.end()) {
        ++bounds;
        CHECK(accepted(key, *at));
        CHECK_FALSE(accepted(key, step(at->get<double>(), outwards)));
      }
      if (const auto at = schema.find(std::string("exclusiveM") + name); at != schema.end()) {
        ++bounds;
        CHECK_FALSE(accepted(key, *at));
        CHECK(accepted(key, step(at->get<double>(), -outwards)));
      }
    }
  });
  CHECK(bounds > 30);
}

TEST_CASE("the largest integers reach their members unchanged", "[config]") {
  for (const Field& field : fields()) {
    if (field.type != FieldType::integer || std::isinf(field.range->max)) continue;
    const auto largest = static_cast<std::int64_t>(field.range->max);
    std::vector<std::string> sets = companions(field.key);
    sets.push_back(field.key + "=" + std::to_string(largest));
    const RunConfig config = parse("{}", sets);
    CHECK(field.read(config) == largest);
  }
}

TEST_CASE("every integer has a range", "[config]") {
  for (const Field& field : fields())
    if (field.type == FieldType::integer) CHECK(field.range.has_value());
}

TEST_CASE("the schema's names are accepted and others are not", "[config]") {
  walk_leaves([&](const std::string& key, const Json& schema) {
    if (!schema.contains("enum")) return;
    INFO(key);
    for (const Json& name : schema.at("enum")) CHECK(accepted(key, name));
    CHECK_FALSE(accepted(key, "no-such-name"));
  });
}

TEST_CASE("the schema's types are those of the resolved values", "[config]") {
  walk_leaves([&](const std::string& key, const Json& schema) {
    INFO(key);
    const Json type = schema.value("type", Json("auto or number"));
    if (type == "integer") CHECK_FALSE(accepted(key, 1.5));
    if (type == "number") CHECK_FALSE(accepted(key, Json::array({1})));
    if (type == "boolean") CHECK_FALSE(accepted(key, 1));
    if (type == "array") CHECK_FALSE(accepted(key, 1));
    CHECK(accepted(key, nullptr) == (type.is_array() || key == "name"));
  });
}

TEST_CASE("the reference has an item for every key and every name", "[config]") {
  const std::string reference = std::regex_replace(config_reference(), std::regex("\n +"), " ");
  for (const Field& field : fields()) {
    CHECK(reference.find("* `" + field.key + "` (") != std::string::npos);
    CHECK(reference.find("`): " + field.about) != std::string::npos);
    CHECK_FALSE(field.about.empty());
    for (const Choice& choice : field.choices())
      CHECK(reference.find(" * `" + choice.name + "`: " + choice.about) != std::string::npos);
  }
}

TEST_CASE("no line of the reference is longer than 120 columns", "[config]") {
  std::istringstream reference(config_reference());
  for (std::string line; std::getline(reference, line);) CHECK(line.size() <= 120);
}
