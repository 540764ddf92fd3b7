// SPDX-License-Identifier: Apache-2.0
// One config key: its JSON key, type, range or names, unit, meaning and the RunConfig member
// behind.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/document.hpp"
#include "config/run_config.hpp"
#include "core/catalogue.hpp"
#include "core/error.hpp"

namespace eqt::config {

enum class FieldType { text, boolean, integer, number, number_list, number_or_auto, per_rank };

/// What a text may be, besides valid UTF-8 and not empty.
enum class TextRule {
  any,
  folder_name,  // at most 128 bytes, no '/', no control character, no leading '.'
  path,         // no control character
};

/// How `--resume` treats a value that differs from the checkpoint's.
enum class OnResume {
  may_change,             // the saved state means the same
  may_change_with_ranks,  // it would not, unless other ranks start that part again
  must_stay               // it would not
};

/// How JSON names the values of a type: an Entry of a catalogue or an enum with names
/// (core/catalogue.hpp), which are texts there.
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

/// Where a RunConfig keeps a value.
using Member = std::variant<std::string*, bool*, int*, std::uint64_t*, double*,
                            std::vector<double>*, std::optional<double>*, PerRank*, NamedMember>;

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

/// Where `value`, a member of a RunConfig, is kept.
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

struct Field {
  std::string key;  // dotted: "optimizer.learning_rate"
  FieldType type = FieldType::text;
  OnResume on_resume = OnResume::must_stay;
  std::string about;          // one line
  std::string unit;           // "" = none
  std::vector<Choice> texts;  // of a member that is a string: those allowed; empty = any
  TextRule text_rule = TextRule::any;
  std::optional<Range> range;  // of the number, or of each of a list
  bool nullable = false;       // text: null stands for ""
  Member (*member)(RunConfig&) = nullptr;
  const NamedType* named = nullptr;  // of a NamedMember

  /// The names that a text may have, as they are now: plugins add some; empty = any text.
  std::vector<Choice> choices() const { return named != nullptr ? named->choices() : texts; }
  Json read(const RunConfig& config) const;
  /// @pre check_value passed
  void write(RunConfig& config, const Json& value) const;

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
    texts = std::move(names);
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

/// @throws Error{usage} unless `field` accepts `value`; `where` names its source.
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

/// The field of the member that `member` points to in any RunConfig.
Field bind(std::string key, OnResume on_resume, Member (*member)(RunConfig&));

}  // namespace eqt::config
