// SPDX-License-Identifier: Apache-2.0
#include "config/document.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.hpp"

namespace eqt::config {
namespace {

using ParseEvent = nlohmann::detail::parse_event_t;

constexpr std::size_t kShownBytes = 80;

/// Cuts at a character's border, so that valid UTF-8 stays valid.
std::string shortened(std::string text) {
  if (text.size() <= kShownBytes) return text;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  text.resize(end);
  return text + "...";
}

/// "3:5" for the byte that the parser could not take (counted from 1, as the parser does).
std::string place(const std::string& text, std::size_t byte) {
  const std::size_t offset = std::min(byte > 0 ? byte - 1 : 0, text.size());
  const std::string_view before(text.data(), offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset : offset - newline - 1;
  return fmt::format("line {}, column {}", line, column + 1);
}

/// The parser's message without its own prefix, as printable text.
std::string reason(std::string_view what) {
  for (const std::string_view prefix_end : {"] ", "column ", ": ", " - "})
    if (const std::size_t at = what.find(prefix_end); at != std::string_view::npos)
      what.remove_prefix(at + prefix_end.size());
  std::string text(what);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20u) c = ' ';
  return shortened(text);
}

/// Returns the last byte that is part of neither spaces nor comments, or 0 if there is none.
/// @pre the parser has taken all of `text`
char last_of_tokens(std::string_view text) {
  const auto behind = [&](std::size_t at, std::size_t size) {
    return at == std::string_view::npos ? text.size() : at + size;
  };
  char last = '\0';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '/') {
      const bool is_long = text.substr(i).starts_with("/*");
      i = is_long ? behind(text.find("*/", i + 2), 2) : behind(text.find_first_of("\r\n", i), 0);
      continue;
    }
    if (c == '"')
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    if (std::string_view(" \t\r\n").find(c) == std::string_view::npos) last = c;
    ++i;
  }
  return last;
}

/// Names a comma that ends an object or a list, the most usual mistake. @param byte as place()
void refuse_last_comma(const std::string& text, std::size_t byte, const std::string& origin) {
  if (byte == 0 || byte > text.size()) return;
  const char found = text[byte - 1];
  if (found != '}' && found != ']') return;
  if (last_of_tokens(std::string_view(text).substr(0, byte - 1)) != ',') return;
  fail(Kind::usage,
       "{}: expected valid JSON, found that the comma before {} at {} has nothing after it; remove "
       "that comma",
       origin, found, place(text, byte));
}

/// Refuses, while the parser reads, what JSON itself allows and a config does not.
class StrictParsing {
 public:
  explicit StrictParsing(const std::string& origin) : origin_(origin) {}

  bool operator()(int depth, ParseEvent event, Json& value) {
    if (event == ParseEvent::object_start || event == ParseEvent::array_start) {
      if (static_cast<std::size_t>(depth) >= kMaxDocumentDepth)
        fail(Kind::usage, "{}: expected at most {} levels of nesting, found more", origin_,
             kMaxDocumentDepth);
    }
    if (event == ParseEvent::object_start) open_.push_back({});
    if (event == ParseEvent::object_end) open_.pop_back();
    if (event == ParseEvent::key) take_key(value.get<std::string>());
    return true;
  }

 private:
  struct Open {
    std::set<std::string> keys;
    std::string latest;
  };

  void take_key(const std::string& key) {
    Open& here = open_.back();
    here.latest = key;
    if (here.keys.insert(key).second) return;
    std::string name;
    for (const Open& object : open_) name += (name.empty() ? "" : ".") + object.latest;
    fail(Kind::usage, "{}: expected each key once, found {} twice; keep one of them", origin_,
         shown_text(name));
  }

  const std::string& origin_;
  std::vector<Open> open_;
};

}  // namespace

std::string shown(const Json& value) {
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string shown_text(const std::string& text) { return shown(Json(text)); }

Json parse_value(const std::string& text, const std::string& origin) {
  if (text.size() > kMaxDocumentBytes)
    fail(Kind::usage, "{}: expected a value of at most {} bytes, found {}", origin,
         kMaxDocumentBytes, text.size());
  return Json::parse(text, StrictParsing(origin), false);
}

Json parse_document(const std::string& text, const std::string& origin, std::string_view what) {
  if (text.size() > kMaxDocumentBytes)
    fail(Kind::usage, "{}: expected a {} of at most {} bytes, found {}", origin, what,
         kMaxDocumentBytes, text.size());
  Json document;
  try {
    document = Json::parse(text, StrictParsing(origin), true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& error) {
    refuse_last_comma(text, error.byte, origin);
    fail(Kind::usage, "{}: expected valid JSON, found at {}: {}", origin, place(text, error.byte),
         reason(error.what()));
  } catch (const Json::out_of_range& error) {
    fail(Kind::usage, "{}: expected numbers that a double can hold, found: {}", origin,
         reason(error.what()));
  }
  if (!document.is_object())
    fail(Kind::usage, "{}: expected a JSON object with {} keys, found {}", origin, what,
         shown(document));
  return document;
}

std::string read_document(const std::string& path, std::string_view named, std::string_view what) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    fail(Kind::usage, "{}: expected a file with {}, found none at {}", named, what, path);
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxDocumentBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof()))
    fail(Kind::usage, "{}: expected a readable file, found none at {}; check its permissions",
         named, path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace eqt::config
