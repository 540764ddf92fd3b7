// SPDX-License-Identifier: Apache-2.0
#include "data/text_classes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "text/rows.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kMaxLabels = 65536;
constexpr std::size_t kLongestShown = 60;  // [bytes] of a label in a message

std::string shown(std::string_view label) {
  std::string text(label.substr(0, kLongestShown));
  if (label.size() > kLongestShown) text += "...";
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

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

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

int LabelNumbers::number(std::string_view label, const std::string& file) {
  const std::string_view name = without_space(label);
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (labels_.size() == kMaxLabels)
    fail(Kind::data,
         "expected at most {} classes in {}, found more; the class comes first in a row",
         kMaxLabels, file);
  labels_.emplace_back(name);
  const int number = static_cast<int>(labels_.size()) - 1;
  numbers_.emplace(name, number);
  return number;
}

TextClasses::TextClasses(const std::vector<std::string>& labels,
                         const std::optional<std::vector<std::string>>& names,
                         const std::string& file) {
  if (names) {
    names_ = *names;
    for (std::size_t i = 0; i < names_.size(); ++i) classes_[names_[i]] = static_cast<int>(i);
    const bool named = std::ranges::all_of(labels, [this](const auto& l) { return find(l) >= 0; });
    if (!named && are_numbers(labels)) number_names(labels);
  } else {
    name_by_labels(labels);
  }
  for (const std::string& label : labels)
    if (find(label) < 0)
      fail(Kind::data,
           "expected labels of the {} classes that classes.txt names in {}, by name or from 1 on, "
           "found \"{}\"; correct one of the two files",
           names_.size(), file, shown(label));
  if (names_.size() < 2)
    fail(Kind::data, "expected two classes or more in {}, found {}; the class comes first in a row",
         file, names_.empty() ? "none" : "\"" + shown(names_.front()) + "\" alone");
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

std::optional<std::vector<std::string>> read_class_names(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "classes.txt";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::vector<std::string> names;
  std::set<std::string> seen;
  text::read_lines(path, [&](std::string_view line) {
    std::string name(without_space(line));
    if (name.empty()) return;
    if (!seen.insert(name).second)
      fail(Kind::data, "expected a name of a class in each line of {}, found \"{}\" twice",
           path.string(), shown(name));
    if (names.size() == kMaxLabels)
      fail(Kind::data, "expected at most {} classes in {}, found more; name those of the labels",
           kMaxLabels, path.string());
    names.push_back(std::move(name));
  });
  if (names.empty())
    fail(Kind::data,
         "expected a name of a class in each line of {}, found none; remove the file "
         "if labels are names",
         path.string());
  return names;
}

}  // namespace eqt::data
