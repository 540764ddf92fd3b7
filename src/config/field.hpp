// One config key: its JSON key, type, range or names, unit, meaning and the RunConfig member
// behind.

#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/document.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"

namespace eqt::config {

enum class FieldType { text, boolean, integer, number, number_list, number_or_auto, per_rank };

/// What a text may hold beside being valid UTF-8 and not empty.
enum class TextRule {
  any,
  folder_name,  // at most 128 bytes, no '/', no control character, no leading '.'
  path,         // no control character
};

/// What `--resume` says to a value that is not the checkpoint's.
enum class OnResume {
  may_change,             // the saved state means the same
  may_change_with_ranks,  // it would not, unless other ranks begin that part of it anew
  must_stay               // it would not
};

struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;

  bool contains(double x) const {
    return (min_excluded ? x > min : x >= min) && (max_excluded ? x < max : x <= max);
  }
};

struct Field {
  std::string key;  // dotted: "optimizer.learning_rate"
  FieldType type = FieldType::text;
  OnResume on_resume = OnResume::must_stay;
  std::string about;            // one line
  std::string unit;             // "" = none
  std::vector<Choice> choices;  // text: the names allowed; empty = any
  TextRule text_rule = TextRule::any;
  std::optional<Range> range;  // of the number, or of each of a list
  bool nullable = false;       // text: null stands for ""
  std::function<Json(const RunConfig&)> read;
  std::function<void(RunConfig&, const Json&)> write;  // @pre check_value passed

  // How the table is written: EQT_FIELD(train.epochs).says("...").in("epochs").from(0, 10).
  Field says(std::string text) && {
    about = std::move(text);
    return std::move(*this);
  }
  Field in(std::string name) && {
    unit = std::move(name);
    return std::move(*this);
  }
  Field one_of(std::vector<Choice> names) && {
    choices = std::move(names);
    return std::move(*this);
  }
  Field within(Range allowed) && {
    range = allowed;
    return std::move(*this);
  }
  Field from(double min, double max) && { return std::move(*this).within({min, max}); }
  Field text_is(TextRule rule) && {
    text_rule = rule;
    return std::move(*this);
  }
  Field or_null() && {
    nullable = true;
    return std::move(*this);
  }
};

/// @throws Error{usage} if `value` is not one that `field` takes; `where` says who gave it.
void check_value(const Field& field, const Json& value, const std::string& where);

/// "an integer in [1, 8]", "a number in (0, 1]", "\"auto\" or a number in (0, 20]", ...
std::string expectation(const Field& field);

/// "[1, 8]", "(0, 1]", "at least 0"; "" without a range.
std::string range_text(const Field& field);

/// Every key, in the order of the documentation.
const std::vector<Field>& fields();

/// nullptr if there is no such key.
const Field* find_field(std::string_view key);

/// "model", "data", "data.partition", ...: each with one line about it, in the order of fields().
const std::vector<Choice>& sections();
bool is_section(std::string_view key);

namespace detail {

template <typename Member>
constexpr FieldType field_type() {
  if constexpr (std::is_same_v<Member, std::string>)
    return FieldType::text;
  else if constexpr (std::is_same_v<Member, bool>)
    return FieldType::boolean;
  else if constexpr (std::is_integral_v<Member>)
    return FieldType::integer;
  else if constexpr (std::is_same_v<Member, double>)
    return FieldType::number;
  else if constexpr (std::is_same_v<Member, std::vector<double>>)
    return FieldType::number_list;
  else if constexpr (std::is_same_v<Member, PerRank>)
    return FieldType::per_rank;
  else {
    static_assert(std::is_same_v<Member, std::optional<double>>, "no JSON type for this member");
    return FieldType::number_or_auto;
  }
}

inline Json per_rank_json(std::monostate) { return nullptr; }
template <typename Value>
Json per_rank_json(const Value& value) {
  return value;
}

template <typename Member>
Json to_json(const Member& member) {
  if constexpr (std::is_same_v<Member, std::optional<double>>)
    return member ? Json(*member) : Json("auto");
  else if constexpr (std::is_same_v<Member, PerRank>)
    return std::visit([](const auto& value) { return per_rank_json(value); }, member);
  else
    return Json(member);
}

template <typename Member>
void from_json(const Json& value, Member& member) {
  if constexpr (std::is_same_v<Member, std::optional<double>>) {
    member.reset();
    if (value.is_number()) member = value.get<double>();
  } else if constexpr (std::is_same_v<Member, PerRank>) {
    member = {};
    if (value.is_number()) member = value.get<double>();
    if (value.is_array()) member = value.get<std::vector<double>>();
  } else if constexpr (std::is_same_v<Member, std::string>) {
    member = value.is_null() ? std::string() : value.get<std::string>();
  } else {
    member = value.get<Member>();
  }
}

}  // namespace detail

/// The field of the member that `at` returns a reference to.
template <typename Accessor>
Field bind(std::string key, OnResume on_resume, Accessor at) {
  using Member = std::remove_cvref_t<decltype(at(std::declval<RunConfig&>()))>;
  Field field;
  field.key = std::move(key);
  field.on_resume = on_resume;
  field.type = detail::field_type<Member>();
  field.read = [at](const RunConfig& config) { return detail::to_json<Member>(at(config)); };
  field.write = [at](RunConfig& config, const Json& value) {
    detail::from_json<Member>(value, at(config));
  };
  return field;
}

}  // namespace eqt::config
