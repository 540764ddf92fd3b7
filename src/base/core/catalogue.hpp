// SPDX-License-Identifier: Apache-2.0
// Catalogues of compressors, collectives, models and others, with one row for each. A row is a
// constant in the file of the thing that it describes. Lists of names and lookups by name read the
// rows.
//
// Two kinds of families:
//
//  * rows that make or describe things; configs hold an Entry<Row>:
//      struct Row { std::string_view name, about; ...; static const Catalogue<Row>& all(); };
//  * rows for the values of an enum; configs hold the enum:
//      std::span<const Named<Norm>> names_of(Norm);   in the enum's own namespace
//    Any row type with `value`, `name` and `about` may replace Named.

#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace eqt {

/// Every row has a name in configs and one line about it.
template <typename Row>
concept CatalogueRow = requires(const Row& row) {
  { row.name } -> std::convertible_to<std::string_view>;
  { row.about } -> std::convertible_to<std::string_view>;
};

/// A row of a catalogue, never none. Two are equal if they are the same row.
template <typename Row>
class Entry {
 public:
  /// `row` must outlive the entry, as rows of catalogues do.
  Entry(const Row& row) noexcept : row_(std::addressof(row)) {}
  Entry(const Row&&) = delete;

  const Row& operator*() const noexcept { return *row_; }
  const Row* operator->() const noexcept { return row_; }
  friend bool operator==(Entry a, Entry b) noexcept { return a.row_ == b.row_; }

 private:
  const Row* row_;
};

/// A family's rows, in the order of the documentation.
template <typename Row>
class Catalogue {
 public:
  /// @throws Error{bug} if a name occurs twice
  Catalogue(std::initializer_list<Entry<Row>> rows) {
    static_assert(CatalogueRow<Row>);
    for (const Entry<Row> row : rows) add(*row);
  }

  /// Appends a row at run time, for a plugin.
  /// @throws Error{bug} if its name is taken
  void add(const Row& row) {
    EQT_CHECK(find(row.name) == nullptr, "two rows are called {}", std::string_view(row.name));
    rows_.push_back(row);
  }

  /// The row of this name; nullptr if there is none.
  const Row* find(std::string_view name) const noexcept {
    for (const Entry<Row> row : rows_)
      if (row->name == name) return &*row;
    return nullptr;
  }

  /// @pre there is one of this name
  Entry<Row> at(std::string_view name) const {
    const Row* const row = find(name);
    EQT_CHECK(row != nullptr, "no row is called {}, only {}", name, names());
    return *row;
  }

  /// "a, b, c", for messages.
  std::string names() const {
    std::string text;
    for (const Entry<Row> row : rows_) (text += text.empty() ? "" : ", ") += row->name;
    return text;
  }

  std::size_t size() const noexcept { return rows_.size(); }
  auto begin() const noexcept { return rows_.begin(); }
  auto end() const noexcept { return rows_.end(); }

 private:
  std::vector<Entry<Row>> rows_;
};

/// A row type that has a catalogue.
template <typename Row>
concept CataloguedRow = CatalogueRow<Row> && requires {
  { Row::all() } -> std::convertible_to<const Catalogue<Row>&>;
};

/// A value of an enum, its name in configs, and one line about it.
template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
  std::string_view about;
};

/// An enum whose values have names: names_of() in its own namespace gives their rows.
template <typename Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires(Enum value) {
  { names_of(value).front().value } -> std::convertible_to<Enum>;
  { names_of(value).front().name } -> std::convertible_to<std::string_view>;
  { names_of(value).front().about } -> std::convertible_to<std::string_view>;
};

/// The row of an enum's value.
/// @pre it has one
template <NamedEnum Enum>
const auto& row_of(Enum value) {
  const auto rows = names_of(value);
  for (const auto& row : rows)
    if (row.value == value) return row;
  fail(Kind::bug, "the value {} of an enum has no name", static_cast<long long>(value));
}

/// The name of an enum's value in configs.
/// @pre it has one
template <NamedEnum Enum>
std::string_view name_of(Enum value) {
  return row_of(value).name;
}

/// The row of the value of this name; nullptr if there is none.
template <NamedEnum Enum>
auto find_named(std::string_view name) -> decltype(&names_of(Enum{}).front()) {
  for (const auto& row : names_of(Enum{}))
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace eqt
