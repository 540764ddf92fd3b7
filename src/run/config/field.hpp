// SPDX-License-Identifier: Apache-2.0
// One config key: its JSON key, type, range or names, unit, meaning and the member of a config
// behind.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/document.hpp"
#include "config/key_types.hpp"
#include "core/catalogue.hpp"
#include "core/error.hpp"

namespace eqt::config {

enum class FieldType {
  text,
  boolean,
  integer,
  number,
  number_list,
  number_or_auto,
  number_auto_or_measured,
  number_or_null,
  integer_or_qsr,
  integer_or_auto,
  per_rank,
  class_weights,
  batch_sizes,
  link_rate,
  text_list,
  parameter_groups,
  board_changes
};

/// The word for WeightRule::balanced.
inline constexpr const char* kBalanced = "balanced";
/// The words for LinkRule; the first one also for what is left open.
inline constexpr const char *kMeasured = "measured", *kIgnore = "ignore";

/// A rule says what a text may be, besides valid UTF-8 and not empty.
enum class TextRule {
  any,
  folder_name,  // at most 128 bytes, no '/', no control character, no leading '.'
  path,         // no control character
};

/// This says how `--resume` treats a value that differs from the checkpoint's.
enum class OnResume {
  may_change,             // the saved state means the same
  may_change_with_ranks,  // it would not, unless other ranks start that part again
  must_stay               // it would not
};

/// A NamedType says how JSON names the values of a type. The type is an Entry of a catalogue or an
/// enum with names (core/catalogue.hpp); its values are texts in JSON.
struct NamedType {
  std::vector<Choice> (*choices)();
  std::string_view (*name)(const void* value);
  void (*set)(void* value, std::string_view name);  // @pre there is one of this name
};

/// A member of such a type.
struct NamedMember {
  void* value;
  const NamedType* type;
};

/// An integer, or "auto": the run finds it out.
struct OpenInteger {
  int* value;
  bool* open;
};

/// A number, "auto", or "measured": the run finds it out.
struct OpenNumber {
  std::optional<double>* value;
  bool* open;
};

/// A number, or null for none; std::optional<double> alone is "auto" or a number.
struct NumberOrNull {
  std::optional<double>* value;
};

/// A Member points to the place where a config keeps a value.
using Member =
    std::variant<std::string*, bool*, int*, std::uint64_t*, double*, std::vector<double>*,
                 std::optional<double>*, NumberOrNull, StepsOrQsr*, StepsOrAuto*, PerRank*,
                 ClassWeights*, BatchSizes*, LinkRate*, std::vector<std::string>*, ParameterGroups*,
                 BoardChanges*, OpenInteger, OpenNumber, NamedMember>;

namespace detail {

template <typename Row>
const NamedType* named_type(const Entry<Row>*) {
  static constexpr NamedType kType = {
      [] {
        std::vector<Choice> choices;
        for (const Entry<Row> row : Row::all())
          choices.push_back({std::string(row->name), std::string(row->about)});
        return choices;
      },
      [](const void* value) {
        return std::string_view((*static_cast<const Entry<Row>*>(value))->name);
      },
      [](void* value, std::string_view name) {
        *static_cast<Entry<Row>*>(value) = Row::all().at(name);
      }};
  return &kType;
}

template <NamedEnum Enum>
const NamedType* named_type(const Enum*) {
  static constexpr NamedType kType = {
      [] {
        std::vector<Choice> choices;
        for (const auto& row : names_of(Enum{}))
          choices.push_back({std::string(row.name), std::string(row.about)});
        return choices;
      },
      [](const void* value) { return eqt::name_of(*static_cast<const Enum*>(value)); },
      [](void* value, std::string_view name) {
        const auto* const row = find_named<Enum>(name);
        EQT_CHECK(row != nullptr, "no value of an enum is called {}", name);
        *static_cast<Enum*>(value) = row->value;
      }};
  return &kType;
}

}  // namespace detail

/// Returns where `value`, a member of a config, is kept.
template <typename Value>
Member member_at(Value& value) {
  if constexpr (requires { detail::named_type(&value); })
    return NamedMember{&value, detail::named_type(&value)};
  else
    return &value;
}

struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;

  bool contains(double x) const {
    return (min_excluded ? x > min : x >= min) && (max_excluded ? x < max : x <= max);
  }
};

/// These facts of a key do not depend on where its value is kept.
struct KeyFacts {
  std::string key;  // dotted: "optimizer.learning_rate"
  FieldType type = FieldType::text;
  OnResume on_resume = OnResume::must_stay;
  std::string about;          // one line
  std::string unit;           // "" = none
  std::vector<Choice> texts;  // of a member that is a string: those allowed; empty = any
  TextRule text_rule = TextRule::any;
  std::optional<Range> range;        // of the number, or of each of a list
  bool nullable = false;             // text: null stands for ""
  const NamedType* named = nullptr;  // of a NamedMember

  /// The names that a text may have, as they are now: plugins add some; empty = any text.
  std::vector<Choice> choices() const { return named != nullptr ? named->choices() : texts; }
};

/// A member's value as JSON.
Json read_member(const Member& member);

/// @pre check_value passed for the member's key
void write_member(const Member& member, const Json& value);

/// A key of a Config: RunConfig, or a section of it.
template <typename Config>
struct FieldOf : KeyFacts {
  std::function<Member(Config&)> member;

  Json read(const Config& config) const {
    return read_member(member(const_cast<Config&>(config)));  // which writes nothing
  }
  /// @pre check_value passed
  void write(Config& config, const Json& value) const { write_member(member(config), value); }

  // The table is written so: EQT_FIELD(train.epochs).says("...").in("epochs").from(0, 10).
  FieldOf says(std::string text) && {
    about = std::move(text);
    return std::move(*this);
  }
  FieldOf in(std::string name) && {
    unit = std::move(name);
    return std::move(*this);
  }
  FieldOf one_of(std::vector<Choice> names) && {
    texts = std::move(names);
    return std::move(*this);
  }
  FieldOf within(Range allowed) && {
    range = allowed;
    return std::move(*this);
  }
  FieldOf from(double min, double max) && { return std::move(*this).within({min, max}); }
  FieldOf text_is(TextRule rule) && {
    text_rule = rule;
    return std::move(*this);
  }
  FieldOf or_null() && {
    nullable = true;
    return std::move(*this);
  }
};

/// @throws Error{usage} unless `field` accepts `value`; `where` names its source.
void check_value(const KeyFacts& field, const Json& value, const std::string& where);

/// "an integer in [1, 8]", "a number in (0, 1]", "\"auto\" or a number in (0, 20]", ...
std::string expectation(const KeyFacts& field);

/// "[1, 8]", "(0, 1]", "at least 0"; "" without a range.
std::string range_text(const KeyFacts& field);

/// The type of a member's key.
FieldType type_of(const Member& member);

/// The field of the member that `member` points to in any Config.
template <typename Config>
FieldOf<Config> bind(std::string key, OnResume on_resume, Member (*member)(Config&)) {
  Config any;
  const Member found = member(any);
  FieldOf<Config> field;
  field.key = std::move(key);
  field.on_resume = on_resume;
  field.type = type_of(found);
  if (const auto* named = std::get_if<NamedMember>(&found)) field.named = named->type;
  field.member = member;
  return field;
}

// Bounds that several keys have.
// Larger than any run, small enough for every integer type and for a JSON reader's double.
inline constexpr double kMany = 1e12;
// Below the largest float32. Learning rates may be large enough to diverge.
inline constexpr double kHuge = 1e38;

}  // namespace eqt::config
