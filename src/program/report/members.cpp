// SPDX-License-Identifier: Apache-2.0
#include "report/members.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "core/error.hpp"
#include "figures/text.hpp"

namespace eqt::report {

using figures::finite;
using figures::shortened;

namespace {

using Json = nlohmann::json;

// Records and configs have four levels. Deeper levels are dropped before any recursion.
constexpr int kDeepest = 32;

/// `text` with words that are not JSON replaced, outside strings.
std::string without_words(const std::string& text, std::size_t& replaced) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    std::size_t taken = 0;
    for (const std::string_view word : kWords)
      if (!quoted && taken == 0 && rest.substr(0, word.size()) == word) taken = word.size();
    if (taken > 0) {
      result += "null";
      ++replaced;
    } else {
      taken = quoted && text[i] == '\\' ? 2 : 1;
      if (text[i] == '"') quoted = !quoted;
      result += rest.substr(0, taken);
    }
    i += taken;
  }
  return result;
}

const Json& empty_object() {
  static const Json empty = Json::object();
  return empty;
}

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocumentBytes = std::size_t{16} << 20;

}  // namespace

Members::Members(const Json& object, std::string place)
    : object_(object), place_(std::move(place)) {
  if (!object.is_object())
    fail(Kind::data, "{}: expected a JSON object, found {}; make the run again or leave it out",
         place_, object.type_name());
}

const Json* Members::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Members::fail_member(const char* key, const char* expected) const {
  const auto found = object_.find(key);
  fail(Kind::data, "{}: expected {} in \"{}\", found {}; make the run again or leave it out",
       place_, expected, key,
       found == object_.end() ? "nothing" : shortened(visible(found->dump()), 60));
}

Figure Members::figure(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_number()) fail_member(key, "a number");
  return finite(found->get<double>());
}

std::uint64_t Members::count(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return 0;
  if (!found->is_number_unsigned()) fail_member(key, "a whole number from 0");
  return found->get<std::uint64_t>();
}

std::string Members::text(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return "";
  if (!found->is_string()) fail_member(key, "a string");
  return visible(found->get_ref<const std::string&>());
}

std::vector<std::string> Members::texts(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_array() ||
      !std::ranges::all_of(*found, [](const Json& text) { return text.is_string(); }))
    fail_member(key, "a list of texts");
  std::vector<std::string> all;
  for (const Json& text : *found) all.push_back(visible(text.get_ref<const std::string&>()));
  return all;
}

bool Members::flag(const char* key) const {
  const Json* found = find(key);
  if (found != nullptr && !found->is_boolean()) fail_member(key, "true or false");
  return found != nullptr && found->get<bool>();
}

bool Members::is_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

Members Members::inside(const char* key) const {
  const Json* found = find(key);
  return {found != nullptr ? *found : empty_object(), place_ + ", \"" + key + "\""};
}

std::pair<Json, std::size_t> parse_lenient(const std::string& text) {
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; };
  Json json = Json::parse(text, is_shallow, false);
  std::size_t replaced = 0;
  if (json.is_discarded()) json = Json::parse(without_words(text, replaced), is_shallow, false);
  return {std::move(json), replaced};
}

std::string read_document(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  if (fs::file_size(path, error) > kMaxDocumentBytes)
    fail(Kind::data, "{}: expected at most {} MiB, found more; leave the run out",
         visible(path.string()), kMaxDocumentBytes >> 20);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    fail(Kind::data, "{}: expected a readable file, but reading failed; check its permissions",
         visible(path.string()));
  return text.str();
}

}  // namespace eqt::report
