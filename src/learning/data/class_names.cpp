// SPDX-License-Identifier: Apache-2.0
#include "data/class_names.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "data/text/rows.hpp"
#include "data/text/unicode.hpp"

namespace eqt::data {
namespace {

bool is_control(unsigned char c) { return c < ' ' || c == 127; }

/// "U+0065 U+0301", of a few characters at most.
std::string code_points(std::u32string_view text) {
  constexpr std::size_t kMost = 8;
  std::string found;
  for (const char32_t c : text.substr(0, kMost))
    found += fmt::format("{}U+{:04X}", found.empty() ? "" : " ", static_cast<std::uint32_t>(c));
  return text.empty() ? "nothing" : found + (text.size() > kMost ? " ..." : "");
}

std::string quoted(std::string_view name) { return '"' + shown_name(name) + '"'; }

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
  const bool utf8 = is_utf8(text);
  std::string shown(text);
  std::ranges::replace_if(
      shown, [&](unsigned char c) { return is_control(c) || (c > 127 && !utf8); }, '?');
  return shown;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 60;  // [bytes]
  if (name.size() <= kLongest) return printable(name);
  std::size_t length = kLongest;
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xC0) == 0x80) --length;
  return printable(name.substr(0, length)) + "...";
}

std::string as_read(std::string_view name) {
  std::u32string letters = decomposed(decode_utf8(name));
  for (char32_t& letter : letters) letter = lower_case(letter);
  std::string found;
  for (const char32_t letter : decomposed(letters)) append_utf8(letter, found);
  return found;
}

std::string told_apart(std::string_view first, std::string_view second) {
  const std::u32string all_of_one = decode_utf8(first), all_of_two = decode_utf8(second);
  std::u32string_view one = all_of_one, two = all_of_two;
  while (!one.empty() && !two.empty() && one.front() == two.front()) {
    one.remove_prefix(1);
    two.remove_prefix(1);
  }
  while (!one.empty() && !two.empty() && one.back() == two.back()) {
    one.remove_suffix(1);
    two.remove_suffix(1);
  }
  return fmt::format("{} and {} ({} and {})", quoted(first), quoted(second), code_points(one),
                     code_points(two));
}

std::optional<std::string> names_read_alike(const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;
  for (const std::string& name : names) {
    const auto [other, is_new] = seen.emplace(as_read(name), name);
    if (!is_new && other->second != name) return told_apart(other->second, name);
  }
  return std::nullopt;
}

void require_readable_names(const std::vector<std::string>& names, const std::string& where) {
  if (const auto alike = names_read_alike(names))
    fail(Kind::data, "{}: {}, found {}; {}", where, kReadableNames, *alike, kReadableRemedy);
}

void require_unlike(const std::vector<std::string>& known, std::string_view name,
                    const std::string& where) {
  const std::string read = as_read(name);
  for (const std::string& one : known)
    if (as_read(one) == read)
      fail(Kind::data, "{}: {}, found {}; {}", where, kReadableNames, told_apart(one, name),
           kReadableRemedy);
}

void require_class_name(std::string_view name, const std::string& where) {
  if (!name.empty() && is_utf8(name) && std::ranges::none_of(name, is_control)) return;
  fail(Kind::data, "{}: expected names of classes in UTF-8 without control characters, found {}",
       where, name.empty() ? "an empty one" : quoted(name));
}

void require_usable_classes(const std::vector<std::string>& names, const std::string& where,
                            std::size_t least) {
  if (names.size() < least)
    fail(Kind::data,
         "{}: expected at least {} classes, found {}; data.path must name the folder "
         "above train/CLASS/ with a folder for each class",
         where, least, names.empty() ? "none" : "only \"" + names.front() + "\"");
  for (const std::string& name : names) require_class_name(name, where);
  require_readable_names(names, where);
}

std::filesystem::path class_names_file(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "classes.txt";
  std::error_code error;
  return std::filesystem::exists(path, error) ? path : std::filesystem::path();
}

std::optional<std::vector<std::string>> read_class_names(const std::filesystem::path& folder) {
  const std::filesystem::path path = class_names_file(folder);
  if (path.empty()) return std::nullopt;
  std::vector<std::string> names;
  std::set<std::string> seen;
  read_lines(path, [&](std::string_view line) {
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
  require_readable_names(names, path.string());
  if (names.empty())
    fail(Kind::data,
         "expected a name of a class in each line of {}, found none; remove the file "
         "if labels are names",
         path.string());
  return names;
}

}  // namespace eqt::data
