// SPDX-License-Identifier: Apache-2.0
// What is derived from the table for readers: the resolved config, the JSON Schema, the reference.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "config/fields.hpp"
#include "metrics/console_text.hpp"

namespace eqt::config {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The object of `key`, by its dotted name, and the last part of the name. `step_into` goes from an
/// object to its member of that name.
template <typename StepInto>
OrderedJson& place_of(OrderedJson& root, const std::string& key, StepInto step_into) {
  OrderedJson* object = &root;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    object = &step_into(*object, key.substr(begin, dot - begin), key.substr(0, dot));
    begin = dot + 1;
  }
  return step_into(*object, key.substr(begin), key);
}

/// The member's value; the empty text of a key that takes null is null.
Json value_of(const Field& field, const RunConfig& config) {
  Json value = field.read(config);
  return field.nullable && value == "" ? Json(nullptr) : value;
}

/// Whole bounds as JSON integers: 0 rather than 0.0.
OrderedJson bound(double x) {
  if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<std::int64_t>(x);
  return x;
}

void add_range(const Field& field, OrderedJson& schema) {
  if (!field.range) return;
  const Range& r = *field.range;
  schema[r.min_excluded ? "exclusiveMinimum" : "minimum"] = bound(r.min);
  if (!std::isinf(r.max)) schema[r.max_excluded ? "exclusiveMaximum" : "maximum"] = bound(r.max);
}

void add_text_rules(const Field& field, OrderedJson& schema) {
  if (field.nullable)
    schema["type"] = {"string", "null"};
  else
    schema["type"] = "string";
  const std::vector<Choice> choices = field.choices();
  for (const Choice& choice : choices) {
    schema["enum"].push_back(choice.name);
    schema["enumDescriptions"].push_back(choice.about);  // shown by editors
  }
  if (choices.empty()) schema["minLength"] = 1;
  if (field.text_rule == TextRule::path) schema["pattern"] = "^[^\\u0000-\\u001f\\u007f]+$";
  if (field.text_rule == TextRule::folder_name) {
    schema["maxLength"] = 128;
    schema["pattern"] = "^[^./\\u0000-\\u001f\\u007f][^/\\u0000-\\u001f\\u007f]*$";
  }
}

OrderedJson parameter_group_schema() {
  OrderedJson names = {
      {"type", "array"}, {"items", {{"type", "string"}, {"minLength", 1}}}, {"minItems", 1}};
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", {"names"}},
          {"minProperties", 2},
          {"properties",
           {{"names", names},
            {"rate_factor", {{"type", "number"}, {"minimum", 0}, {"default", 1}}},
            {"weight_decay", {{"type", {"number", "null"}}, {"minimum", 0}}},
            {"momentum", {{"type", {"number", "null"}}, {"minimum", 0}, {"exclusiveMaximum", 1}}},
            {"frozen", {{"type", "boolean"}, {"default", false}}},
            {"orthogonal", {{"type", "boolean"}, {"default", true}}}}}};
}

OrderedJson board_change_schema() {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", {"step", "rank", "factor"}},
          {"properties",
           {{"step", {{"type", "integer"}, {"minimum", 1}}},
            {"rank", {{"type", "integer"}, {"minimum", 0}}},
            {"factor", {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1000}}}}}};
}

void add_type(const Field& field, OrderedJson& schema) {
  OrderedJson number = {{"type", "number"}};
  add_range(field, number);
  switch (field.type) {
    case FieldType::text:
      add_text_rules(field, schema);
      break;
    case FieldType::boolean:
      schema["type"] = "boolean";
      break;
    case FieldType::integer:
      schema["type"] = "integer";
      add_range(field, schema);
      break;
    case FieldType::number:
      schema.update(number);
      break;
    case FieldType::number_list:
      schema["type"] = "array";
      schema["items"] = number;
      break;
    case FieldType::number_or_auto:
      schema["oneOf"] = OrderedJson::array({OrderedJson{{"const", "auto"}}, number});
      break;
    case FieldType::number_auto_or_measured:
      schema["oneOf"] = OrderedJson::array(
          {OrderedJson{{"enum", OrderedJson::array({kAuto, kMeasured})}}, number});
      break;
    case FieldType::number_or_null:
      schema["type"] = {"null", "number"};
      add_range(field, schema);  // of a number alone
      break;
    case FieldType::integer_or_qsr:
    case FieldType::integer_or_auto: {
      const char* const word = field.type == FieldType::integer_or_qsr ? kQsr : kAuto;
      number["type"] = "integer";
      schema["oneOf"] = OrderedJson::array({OrderedJson{{"const", word}}, number});
      break;
    }
    case FieldType::per_rank:
      schema["type"] = {"null", "number", "array"};
      add_range(field, schema);  // of numbers alone
      schema["items"] = number;
      schema["minItems"] = 1;
      break;
    case FieldType::class_weights:
      schema["type"] = {"null", "string", "array"};
      schema["pattern"] = fmt::format("^{}$", kBalanced);  // of a string alone
      schema["items"] = number;
      schema["minItems"] = 1;
      break;
    case FieldType::batch_sizes:
      schema["type"] = {"null", "string", "array"};
      schema["pattern"] = fmt::format("^{}$", kAuto);  // of a string alone
      schema["items"] = number;
      schema["items"]["type"] = "integer";
      schema["minItems"] = 1;
      break;
    case FieldType::link_rate:
      schema["oneOf"] = OrderedJson::array(
          {OrderedJson{{"enum", OrderedJson::array({kMeasured, kIgnore})}}, number});
      break;
    case FieldType::text_list:
      schema["type"] = "array";
      schema["items"] = {{"type", "string"}, {"minLength", 1}};
      break;
    case FieldType::parameter_groups:
      schema["type"] = "array";
      schema["items"] = parameter_group_schema();
      break;
    case FieldType::board_changes:
      schema["type"] = "array";
      schema["items"] = board_change_schema();
      break;
  }
}

OrderedJson field_schema(const Field& field) {
  OrderedJson schema;
  schema["description"] = field.unit.empty() ? field.about : field.about + " [" + field.unit + "]";
  add_type(field, schema);
  schema["default"] = value_of(field, RunConfig{});
  return schema;
}

std::string about_section(const std::string& key) {
  const auto found = std::find_if(sections().begin(), sections().end(),
                                  [&](const Choice& section) { return section.name == key; });
  EQT_CHECK(found != sections().end(), "section {} has no line in sections()", key);
  return found->about;
}

std::string type_word(const Field& field) {
  switch (field.type) {
    case FieldType::text:
      return field.nullable ? "string or null" : "string";
    case FieldType::boolean:
      return "boolean";
    case FieldType::integer:
      return "integer";
    case FieldType::number:
      return "number";
    case FieldType::number_list:
      return "list of numbers";
    case FieldType::number_or_auto:
      return "\"auto\" or number";
    case FieldType::number_auto_or_measured:
      return "\"auto\", \"measured\" or number";
    case FieldType::number_or_null:
      return "number or null";
    case FieldType::integer_or_qsr:
      return "\"qsr\" or integer";
    case FieldType::integer_or_auto:
      return "\"auto\" or integer";
    case FieldType::per_rank:
      return "number, list of numbers or null";
    case FieldType::class_weights:
      return "\"balanced\", list of numbers or null";
    case FieldType::batch_sizes:
      return "\"auto\", list of integers or null";
    case FieldType::link_rate:
      return "\"measured\", \"ignore\" or number";
    case FieldType::text_list:
      return "list of strings";
    case FieldType::parameter_groups:
    case FieldType::board_changes:
      return "list of objects";
  }
  return "";
}

/// Returns the default as JSON, with spaces at which a line may break.
std::string shown_default(const Field& field) {
  const Json value = value_of(field, RunConfig{});
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + item.dump();
  return "[" + text + "]";
}

/// "integer, [2, 8] bits, default `4`".
std::string facts_of(const Field& field) {
  std::string facts = type_word(field);
  if (field.choices().empty() && field.range) facts += ", " + range_text(field);
  if (!field.unit.empty()) facts += (field.range ? " " : ", ") + field.unit;
  return facts + ", default `" + shown_default(field) + "`";
}

/// Appends a list item of Markdown in lines of at most 120 columns; `indent` columns stand before
/// it.
void append_item(std::string& out, std::size_t indent, const std::string& text) {
  const std::string item = std::string(indent, ' ') + "* " + text;
  for (const std::string& line : metrics::wrapped(item, 120, indent + 2)) out += line + "\n";
}

/// The section in which the key stands: "compressor" of "compressor.bits"; empty for keys at the
/// top.
std::string section_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

/// The keys that `shows` says, with their values.
std::string json_of(const RunConfig& config, const std::function<bool(const std::string&)>& shows) {
  OrderedJson root = OrderedJson::object();
  for (const Field& field : fields())
    if (shows(field.key))
      place_of(root, field.key,
               [](OrderedJson& object, const std::string& name,
                  const std::string&) -> OrderedJson& { return object[name]; }) =
          value_of(field, config);
  return root.dump(2) + "\n";
}

}  // namespace

std::string resolved_json(const RunConfig& config) {
  return json_of(config, [](const std::string&) { return true; });
}

std::string short_json(const RunConfig& config) {
  static const std::set<std::string, std::less<>> kChief = {"name",
                                                            "model.name",
                                                            "data.name",
                                                            "train.epochs",
                                                            "train.steps",
                                                            "train.batch_size",
                                                            "optimizer.name",
                                                            "optimizer.learning_rate",
                                                            "synchronization.algorithm",
                                                            "compressor.name"};
  const auto deciding = deciding_keys(config);
  return json_of(config, [&](const std::string& key) {
    return kChief.contains(key) || deciding.contains(key);
  });
}

std::string config_schema() {
  OrderedJson root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", "equant-train run config"},
                      {"type", "object"},
                      {"additionalProperties", false},
                      // No key of a run: it tells an editor by which schema to check the file.
                      {"patternProperties", {{"^\\$schema$", {{"type", "string"}}}}},
                      {"properties", OrderedJson::object()}};
  const auto step_into = [](OrderedJson& object, const std::string& name,
                            const std::string& key) -> OrderedJson& {
    OrderedJson& inner = object["properties"][name];
    if (inner.is_null() && is_section(key))
      inner = {{"description", about_section(key)},
               {"type", "object"},
               {"additionalProperties", false},
               {"properties", OrderedJson::object()}};
    return inner;
  };
  for (const Field& field : fields()) place_of(root, field.key, step_into) = field_schema(field);
  return root.dump(2) + "\n";
}

std::string config_reference() {
  std::string out;
  const auto append_keys = [&out](const std::string& section) {
    for (const Field& field : fields()) {
      if (section_of(field.key) != section) continue;
      append_item(out, 0, fmt::format("`{}` ({}): {}", field.key, facts_of(field), field.about));
      for (const Choice& choice : field.choices())
        append_item(out, 2, fmt::format("`{}`: {}", choice.name, choice.about));
    }
  };
  out += "## The run\n\n";
  append_keys("");
  for (const Choice& section : sections()) {
    fmt::format_to(std::back_inserter(out), "\n## `{}`: {}\n\n", section.name, section.about);
    append_keys(section.name);
  }
  return out;
}

}  // namespace eqt::config
