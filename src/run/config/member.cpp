// SPDX-License-Identifier: Apache-2.0
// Values of a config's members from and to JSON.

#include <nlohmann/json.hpp>

#include "config/field.hpp"

namespace eqt::config {
namespace {

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
  Json operator()(const NumberOrNull* member) const {
    return member->value ? Json(*member->value) : Json(nullptr);
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
           {"frozen", group.frozen}});
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
  void operator()(NumberOrNull* member) const { (*this)(&member->value); }
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

FieldType type_of(const Member& member) {
  struct Types {
    FieldType operator()(std::string*) const { return FieldType::text; }
    FieldType operator()(bool*) const { return FieldType::boolean; }
    FieldType operator()(int*) const { return FieldType::integer; }
    FieldType operator()(std::uint64_t*) const { return FieldType::integer; }
    FieldType operator()(double*) const { return FieldType::number; }
    FieldType operator()(std::vector<double>*) const { return FieldType::number_list; }
    FieldType operator()(std::optional<double>*) const { return FieldType::number_or_auto; }
    FieldType operator()(NumberOrNull*) const { return FieldType::number_or_null; }
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
