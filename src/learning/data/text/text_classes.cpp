// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "core/error.hpp"
#include "data/class_names.hpp"

namespace eqt::data {
namespace {

/// The whole number that a label is.
std::optional<std::int64_t> number_of(std::string_view label) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error != std::errc{} || end != label.data() + label.size()) return std::nullopt;
  return number;
}

bool are_numbers(const std::vector<std::string>& labels) {
  return std::ranges::all_of(labels,
                             [](const auto& label) { return number_of(label).has_value(); });
}

}  // namespace

std::string plain_label(std::string_view label) {
  label = without_space(label);
  const std::size_t dot = label.find('.');
  const bool is_whole = dot != std::string_view::npos && dot + 1 < label.size() &&
                        label.find_first_not_of('0', dot + 1) == std::string_view::npos &&
                        number_of(label.substr(0, dot));
  return std::string(is_whole ? label.substr(0, dot) : label);
}

int LabelNumbers::number(std::string_view label, const std::string& file, std::size_t line) {
  const std::string name = plain_label(label);
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  require_class_name(name, fmt::format("{}, line {}", file, line));
  if (labels_.size() == kMaxClassNames)
    fail(Kind::data,
         "expected at most {} classes in {}, found more; the class comes first in a row",
         kMaxClassNames, file);
  labels_.push_back(name);
  const int number = static_cast<int>(labels_.size()) - 1;
  numbers_.emplace(name, number);
  return number;
}

TextClasses::TextClasses(const std::vector<std::string>& labels,
                         const std::optional<std::vector<std::string>>& names,
                         const std::string& file, std::size_t least) {
  if (names) {
    names_ = *names;
    for (std::size_t i = 0; i < names_.size(); ++i)
      classes_[plain_label(names_[i])] = static_cast<int>(i);
    const bool named = std::ranges::all_of(labels, [this](const auto& l) { return find(l) >= 0; });
    if (!named && are_numbers(labels)) number_names(labels);
  } else {
    name_by_labels(labels);
  }
  for (const std::string& label : labels) {
    if (find(label) >= 0) continue;
    require_unlike(names_, label, file);
    fail(Kind::data,
         "expected labels of the {} classes that classes.txt names in {}, by name or from 1 on, "
         "found \"{}\"; correct one of the two files",
         names_.size(), file, shown_name(label));
  }
  if (!names) require_readable_names(names_, file);
  if (names_.size() < least)
    fail(Kind::data, "expected two classes or more in {}, found {}; the class comes first in a row",
         file, names_.empty() ? "none" : "\"" + shown_name(names_.front()) + "\" alone");
}

void TextClasses::name_by_labels(const std::vector<std::string>& labels) {
  names_ = labels;
  if (are_numbers(labels))
    std::ranges::sort(names_, {}, [](const auto& label) { return *number_of(label); });
  else
    std::ranges::sort(names_);
  for (std::size_t i = 0; i < names_.size(); ++i) classes_[names_[i]] = static_cast<int>(i);
}

void TextClasses::number_names(const std::vector<std::string>& labels) {
  const bool from_zero =
      std::ranges::any_of(labels, [](const auto& label) { return *number_of(label) == 0; });
  classes_.clear();
  for (std::size_t i = 0; i < names_.size(); ++i)
    classes_[std::to_string(i + (from_zero ? 0 : 1))] = static_cast<int>(i);
}

int TextClasses::find(std::string_view label) const {
  const auto found = classes_.find(label);
  return found == classes_.end() ? -1 : found->second;
}

}  // namespace eqt::data
