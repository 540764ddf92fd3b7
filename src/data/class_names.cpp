// SPDX-License-Identifier: Apache-2.0
#include "data/class_names.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "text/rows.hpp"
#include "text/unicode.hpp"

namespace eqt::data {
namespace {

bool is_control(unsigned char c) { return c < ' ' || c == 127; }

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string printable(std::string_view text) {
  const bool utf8 = text::is_utf8(text);
  std::string shown(text);
  std::ranges::replace_if(
      shown, [&](unsigned char c) { return is_control(c) || (c > 127 && !utf8); }, '?');
  return shown;
}

void require_class_name(std::string_view name, const std::string& where) {
  if (!name.empty() && text::is_utf8(name) && std::ranges::none_of(name, is_control)) return;
  fail(Kind::data, "{}: expected names of classes in UTF-8 without control characters, found {}",
       where, name.empty() ? "an empty one" : '"' + printable(name) + '"');
}

void require_usable_classes(const std::vector<std::string>& names, const std::string& where,
                            std::size_t least) {
  if (names.size() < least)
    fail(Kind::data,
         "{}: expected at least {} classes, found {}; data.path must name the folder "
         "above train/CLASS/ with a folder for each class",
         where, least, names.empty() ? "none" : "only \"" + names.front() + "\"");
  std::map<std::string, std::string> seen;
  for (const std::string& name : names) {
    require_class_name(name, where);
    const auto [place, is_new] = seen.emplace(lower_case(name), name);
    if (!is_new)
      fail(Kind::data,
           "{}: expected class names that differ by more than upper and lower case, found \"{}\" "
           "and \"{}\"; join or rename them",
           where, place->second, name);
  }
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
    require_class_name(name, path.string());
    if (!seen.insert(name).second)
      fail(Kind::data, "expected a name of a class in each line of {}, found \"{}\" twice",
           path.string(), name);
    if (names.size() == kMaxClassNames)
      fail(Kind::data, "expected at most {} classes in {}, found more; name those of the labels",
           kMaxClassNames, path.string());
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
