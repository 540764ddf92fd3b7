// SPDX-License-Identifier: Apache-2.0
#include "config/field.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/nearest.hpp"

namespace eqt::config {
namespace {

std::vector<std::string> names_of(const KeyFacts& field) {
  std::vector<std::string> names;
  for (const Choice& choice : field.choices()) names.push_back(choice.name);
  return names;
}

std::string or_null(const KeyFacts& field, std::string text) {
  return field.nullable ? text + " or null" : text;
}

std::string with_range(const KeyFacts& field, std::string_view noun) {
  if (!field.range) return std::string(noun);
  const bool one_sided = std::isinf(field.range->max);
  return fmt::format("{} {}{}", noun, one_sided ? "of " : "in ", range_text(field));
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20u || static_cast<unsigned char>(c) == 0x7Fu;
  });
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

bool obeys(TextRule rule, const std::string& text) {
  if (text.empty() || !is_utf8(text)) return false;
  switch (rule) {
    case TextRule::any:
      return true;
    case TextRule::path:
      return !has_control_character(text);
    case TextRule::folder_name:
      return text.size() <= 128 && text.front() != '.' && text.find('/') == std::string::npos &&
             !has_control_character(text);
  }
  return false;
}

void check_name(const KeyFacts& field, const std::string& name, const std::string& where) {
  const std::vector<std::string> names = names_of(field);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  if (names.size() == 1)
    fail(Kind::usage, "unknown name {} for {} in {}; the only name in this version is \"{}\"",
         shown_text(name), field.key, where, names.front());
  const std::string* const near = close_name(name, names);
  fail(Kind::usage, "unknown name {} for {} in {}; {}all names are: {}", shown_text(name),
       field.key, where, near != nullptr ? fmt::format("the nearest is \"{}\", and ", *near) : "",
       fmt::join(names, ", "));
}

bool is_number_list(const Json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number(); });
}

bool is_integer_list(const Json& value) {
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& item) { return item.is_number_integer(); });
}

bool is_text_list(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) {
           return item.is_string() && obeys(TextRule::path, item.get_ref<const std::string&>());
         });
}

bool is_size(const Json& value) {
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kHuge;
}

/// An object with names and at least one of the other members, and nothing else.
bool is_parameter_group(const Json& value) {
  if (!value.is_object() || value.size() < 2 || !value.contains("names")) return false;
  for (const auto& [name, member] : value.items()) {
    const bool fits = name == "names"          ? is_text_list(member) && !member.empty()
                      : name == "rate_factor"  ? is_size(member)
                      : name == "weight_decay" ? is_size(member) || member.is_null()
                      : name == "momentum"
                          ? member.is_null() || (is_size(member) && member.get<double>() < 1)
                          : (name == "frozen" || name == "orthogonal") && member.is_boolean();
    if (!fits) return false;
  }
  return true;
}

/// An object with these three members and nothing else.
bool is_board_change(const Json& value) {
  if (!value.is_object() || value.size() != 3) return false;
  const auto whole = [&](const char* name, double min, double max) {
    return value.contains(name) && value.at(name).is_number_integer() &&
           value.at(name).get<double>() >= min && value.at(name).get<double>() <= max;
  };
  constexpr double kMostRanks = 65536, kMostFactor = 1000;
  if (!whole("step", 1, kMany) || !whole("rank", 0, kMostRanks) || !value.contains("factor"))
    return false;
  const Json& factor = value.at("factor");
  return factor.is_number() && factor.get<double>() > 0 && factor.get<double>() <= kMostFactor;
}

bool right_type(const KeyFacts& field, const Json& value) {
  switch (field.type) {
    case FieldType::text:
      return value.is_string() || (field.nullable && value.is_null());
    case FieldType::boolean:
      return value.is_boolean();
    case FieldType::integer:
      return value.is_number_integer();
    case FieldType::number:
      return value.is_number();
    case FieldType::number_or_auto:
      return value.is_number() || value == kAuto;
    case FieldType::number_auto_or_measured:
      return value.is_number() || value == kAuto || value == kMeasured;
    case FieldType::number_or_null:
      return value.is_number() || value.is_null();
    case FieldType::integer_or_qsr:
      return value.is_number_integer() || value == kQsr;
    case FieldType::integer_or_auto:
      return value.is_number_integer() || value == kAuto;
    case FieldType::number_list:
      return is_number_list(value);
    case FieldType::per_rank:
      return value.is_null() || value.is_number() || (is_number_list(value) && !value.empty());
    case FieldType::class_weights:
      return value.is_null() || value == kBalanced || (is_number_list(value) && !value.empty());
    case FieldType::batch_sizes:
      return value.is_null() || value == kAuto || (is_integer_list(value) && !value.empty());
    case FieldType::link_rate:
      return value.is_number() || value == kMeasured || value == kIgnore;
    case FieldType::text_list:
      return is_text_list(value);
    case FieldType::parameter_groups:
      return value.is_array() && std::all_of(value.begin(), value.end(), is_parameter_group);
    case FieldType::board_changes:
      return value.is_array() && std::all_of(value.begin(), value.end(), is_board_change);
  }
  return false;
}

bool in_range(const KeyFacts& field, const Json& value) {
  if (!field.range) return true;
  if (value.is_array())
    return std::all_of(value.begin(), value.end(),
                       [&](const Json& item) { return in_range(field, item); });
  return !value.is_number() || field.range->contains(value.get<double>());
}

/// A member's value as JSON.
struct ToJson {
  template <typename Value>
  Json operator()(const Value* member) const {
    return Json(*member);
  }
  Json operator()(const std::optional<double>* member) const {
    return *member ? Json(**member) : Json(kAuto);
  }
  Json operator()(const OpenInteger& member) const {
    return *member.open ? Json(kAuto) : Json(*member.value);
  }
  Json operator()(const OpenNumber& member) const {
    return *member.open ? Json(kMeasured) : (*this)(member.value);
  }
  Json operator()(const NumberOrNull& member) const {
    return *member.value ? Json(**member.value) : Json(nullptr);
  }
  template <const char* Word>
  Json operator()(const StepsOr<Word>* member) const {
    return member->count ? Json(*member->count) : Json(Word);
  }
  Json operator()(const NamedMember& member) const {
    return Json(std::string(member.type->name(member.value)));
  }
  Json operator()(const PerRank* member) const {
    if (const auto* each = std::get_if<double>(member)) return Json(*each);
    if (const auto* list = std::get_if<std::vector<double>>(member)) return Json(*list);
    return Json(nullptr);
  }
  Json operator()(const ClassWeights* member) const {
    if (std::holds_alternative<WeightRule>(*member)) return Json(kBalanced);
    if (const auto* list = std::get_if<std::vector<double>>(member)) return Json(*list);
    return Json(nullptr);
  }
  Json operator()(const BatchSizes* member) const {
    if (std::holds_alternative<BatchRule>(*member)) return Json(kAuto);
    if (const auto* list = std::get_if<std::vector<std::uint64_t>>(member)) return Json(*list);
    return Json(nullptr);
  }
  Json operator()(const LinkRate* member) const {
    if (const auto* rate = std::get_if<double>(member)) return Json(*rate);
    return Json(std::get<LinkRule>(*member) == LinkRule::measured ? kMeasured : kIgnore);
  }
  Json operator()(const ParameterGroups* member) const {
    Json groups = Json::array();
    for (const ParameterGroup& group : *member)
      groups.push_back(
          {{"names", group.names},
           {"rate_factor", group.rate_factor},
           {"weight_decay", group.weight_decay ? Json(*group.weight_decay) : Json(nullptr)},
           {"momentum", group.momentum ? Json(*group.momentum) : Json(nullptr)},
           {"frozen", group.frozen},
           {"orthogonal", group.orthogonal}});
    return groups;
  }
  Json operator()(const BoardChanges* member) const {
    Json changes = Json::array();
    for (const BoardChange& change : *member)
      changes.push_back({{"step", change.step}, {"rank", change.rank}, {"factor", change.factor}});
    return changes;
  }
};

/// Gives a member a value that check_value() passed.
struct FromJson {
  const Json& value;

  template <typename Value>
  void operator()(Value* member) const {
    *member = value.get<Value>();
  }
  void operator()(std::string* member) const {
    *member = value.is_null() ? std::string() : value.get<std::string>();
  }
  void operator()(const NamedMember& member) const {
    member.type->set(member.value, value.get_ref<const std::string&>());
  }
  void operator()(std::optional<double>* member) const {
    member->reset();
    if (value.is_number()) *member = value.get<double>();
  }
  void operator()(const OpenInteger& member) const {
    *member.open = value == kAuto;
    if (value.is_number()) *member.value = value.get<int>();
  }
  void operator()(const OpenNumber& member) const {
    *member.open = value == kMeasured;
    (*this)(member.value);
  }
  void operator()(const NumberOrNull& member) const { (*this)(member.value); }
  template <const char* Word>
  void operator()(StepsOr<Word>* member) const {
    member->count.reset();
    if (value.is_number()) member->count = value.get<std::uint64_t>();
  }
  void operator()(PerRank* member) const {
    *member = {};
    if (value.is_number()) *member = value.get<double>();
    if (value.is_array()) *member = value.get<std::vector<double>>();
  }
  void operator()(ClassWeights* member) const {
    *member = {};
    if (value.is_string()) *member = WeightRule::balanced;
    if (value.is_array()) *member = value.get<std::vector<double>>();
  }
  void operator()(BatchSizes* member) const {
    *member = {};
    if (value.is_string()) *member = BatchRule::by_speed;
    if (value.is_array()) *member = value.get<std::vector<std::uint64_t>>();
  }
  void operator()(LinkRate* member) const {
    if (value.is_number()) {
      *member = value.get<double>();
    } else {
      *member = value == kMeasured ? LinkRule::measured : LinkRule::ignore;
    }
  }
  void operator()(ParameterGroups* member) const {
    member->clear();
    for (const Json& item : value) {
      ParameterGroup group;
      group.names = item.at("names").get<std::vector<std::string>>();
      group.rate_factor = item.value("rate_factor", 1.0);
      if (item.contains("weight_decay") && !item.at("weight_decay").is_null())
        group.weight_decay = item.at("weight_decay").get<double>();
      group.frozen = item.value("frozen", false);
      if (item.contains("momentum") && !item.at("momentum").is_null())
        group.momentum = item.at("momentum").get<double>();
      group.orthogonal = item.value("orthogonal", true);
      member->push_back(std::move(group));
    }
  }
  void operator()(BoardChanges* member) const {
    member->clear();
    for (const Json& item : value)
      member->push_back({.step = item.at("step").get<std::uint64_t>(),
                         .rank = item.at("rank").get<std::uint64_t>(),
                         .factor = item.at("factor").get<double>()});
  }
};

}  // namespace

std::string range_text(const KeyFacts& field) {
  if (!field.range) return "";
  const Range& r = *field.range;
  if (std::isinf(r.max))
    return fmt::format("{} {}", r.min_excluded ? "more than" : "at least", r.min);
  return fmt::format("{}{}, {}{}", r.min_excluded ? '(' : '[', r.min, r.max,
                     r.max_excluded ? ')' : ']');
}

std::string expectation(const KeyFacts& field) {
  switch (field.type) {
    case FieldType::boolean:
      return "true or false";
    case FieldType::integer:
      return with_range(field, "an integer");
    case FieldType::number:
      return with_range(field, "a number");
    case FieldType::number_or_auto:
      return "\"auto\" or " + with_range(field, "a number");
    case FieldType::number_auto_or_measured:
      return fmt::format("\"{}\", \"{}\" or {}", kAuto, kMeasured, with_range(field, "a number"));
    case FieldType::number_or_null:
      return "null or " + with_range(field, "a number");
    case FieldType::integer_or_qsr:
      return fmt::format("\"{}\" or {}", kQsr, with_range(field, "an integer"));
    case FieldType::integer_or_auto:
      return fmt::format("\"{}\" or {}", kAuto, with_range(field, "an integer"));
    case FieldType::number_list:
      return with_range(field, "a list of numbers");
    case FieldType::per_rank:
      return with_range(field, "null, a number or a list of one number per rank, each");
    case FieldType::class_weights:
      return fmt::format("null, \"{}\" or {}", kBalanced,
                         with_range(field, "a list of one number per class, each"));
    case FieldType::batch_sizes:
      return fmt::format("null, \"{}\" or {}", kAuto,
                         with_range(field, "a list of one integer per rank, each"));
    case FieldType::link_rate:
      return fmt::format("\"{}\", \"{}\" or {}", kMeasured, kIgnore, with_range(field, "a number"));
    case FieldType::text_list:
      return "a list of strings";
    case FieldType::parameter_groups:
      return "a list of objects like {\"names\": [\"fc.*\"], \"rate_factor\": 10, "
             "\"weight_decay\": 0, \"momentum\": 0.9, \"frozen\": false, \"orthogonal\": false}, "
             "of "
             "which names and another one are needed";
    case FieldType::board_changes:
      return "a list of objects like {\"step\": 200, \"rank\": 0, \"factor\": 2} with steps from 1 "
             "on and factors in (0, 1000]";
    case FieldType::text:
      break;
  }
  if (const auto names = names_of(field); !names.empty())
    return fmt::format("one of {}", fmt::join(names, ", "));
  if (field.text_rule == TextRule::folder_name)
    return "a folder's name of 1 to 128 bytes without \"/\", control characters or a leading dot";
  if (field.text_rule == TextRule::path) return or_null(field, "a path");
  return or_null(field, "a string");
}

void check_value(const KeyFacts& field, const Json& value, const std::string& where) {
  const bool bad_text = value.is_string() && field.type == FieldType::text &&
                        !obeys(field.text_rule, value.get_ref<const std::string&>());
  if (!right_type(field, value) || !in_range(field, value) || bad_text)
    fail(Kind::usage, "{} in {}: expected {}, found {}", field.key, where, expectation(field),
         shown(value));
  if (!names_of(field).empty()) check_name(field, value.get<std::string>(), where);
}

FieldType type_of(const Member& member) {
  struct Types {
    FieldType operator()(std::string*) const { return FieldType::text; }
    FieldType operator()(bool*) const { return FieldType::boolean; }
    FieldType operator()(int*) const { return FieldType::integer; }
    FieldType operator()(std::uint64_t*) const { return FieldType::integer; }
    FieldType operator()(double*) const { return FieldType::number; }
    FieldType operator()(std::vector<double>*) const { return FieldType::number_list; }
    FieldType operator()(std::optional<double>*) const { return FieldType::number_or_auto; }
    FieldType operator()(const NumberOrNull&) const { return FieldType::number_or_null; }
    FieldType operator()(StepsOrQsr*) const { return FieldType::integer_or_qsr; }
    FieldType operator()(StepsOrAuto*) const { return FieldType::integer_or_auto; }
    FieldType operator()(PerRank*) const { return FieldType::per_rank; }
    FieldType operator()(ClassWeights*) const { return FieldType::class_weights; }
    FieldType operator()(BatchSizes*) const { return FieldType::batch_sizes; }
    FieldType operator()(LinkRate*) const { return FieldType::link_rate; }
    FieldType operator()(std::vector<std::string>*) const { return FieldType::text_list; }
    FieldType operator()(ParameterGroups*) const { return FieldType::parameter_groups; }
    FieldType operator()(BoardChanges*) const { return FieldType::board_changes; }
    FieldType operator()(const OpenInteger&) const { return FieldType::integer_or_auto; }
    FieldType operator()(const OpenNumber&) const { return FieldType::number_auto_or_measured; }
    FieldType operator()(const NamedMember&) const { return FieldType::text; }
  };
  return std::visit(Types{}, member);
}

Json read_member(const Member& member) { return std::visit(ToJson{}, member); }

void write_member(const Member& member, const Json& value) { std::visit(FromJson{value}, member); }

}  // namespace eqt::config
