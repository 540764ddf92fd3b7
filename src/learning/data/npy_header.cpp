// SPDX-License-Identifier: Apache-2.0
#include "data/npy_header.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "data/shown.hpp"

namespace eqt::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 65536;   // [bytes] NumPy itself reads 10000
constexpr std::size_t kMaxDimensions = 32;  // NumPy's

struct TypeRow {
  NpyType type;
  std::string_view code;  // without byte order
  std::string_view name;
  std::size_t bytes;
  bool whole;
};
constexpr std::array<TypeRow, 12> kTypes = {{{NpyType::boolean, "b1", "bool", 1, true},
                                             {NpyType::int8, "i1", "int8", 1, true},
                                             {NpyType::int16, "i2", "int16", 2, true},
                                             {NpyType::int32, "i4", "int32", 4, true},
                                             {NpyType::int64, "i8", "int64", 8, true},
                                             {NpyType::uint8, "u1", "uint8", 1, true},
                                             {NpyType::uint16, "u2", "uint16", 2, true},
                                             {NpyType::uint32, "u4", "uint32", 4, true},
                                             {NpyType::uint64, "u8", "uint64", 8, true},
                                             {NpyType::float16, "f2", "float16", 2, false},
                                             {NpyType::float32, "f4", "float32", 4, false},
                                             {NpyType::float64, "f8", "float64", 8, false}}};

const TypeRow& row_of(NpyType type) { return *std::ranges::find(kTypes, type, &TypeRow::type); }

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> format,
                         Args&&... args) {
  fail(
      Kind::data,
      "{}: expected a NumPy file of plain numbers, {}; numpy.save(FILE, x) writes one for an array "
      "x of bool, integer or float type",
      path, fmt::format(format, std::forward<Args>(args)...));
}

/// The header's dictionary: Python literals of texts, truths and tuples of numbers.
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& path) : text_(text), path_(path) { read(); }

  std::string_view type() const { return *type_; }
  bool fortran_order() const { return *fortran_order_; }
  const std::vector<std::size_t>& shape() const { return *shape_; }

 private:
  void read() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        set(type_, key, type_text());
      } else if (key == "fortran_order") {
        set(fortran_order_, key, truth());
      } else if (key == "shape") {
        set(shape_, key, tuple());
      } else {
        refuse(path_, "found the key {} in its header", shown(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) wrong("its end");
    if (!type_ || !fortran_order_ || !shape_)
      refuse(path_, "found a header without descr, fortran_order or shape");
  }

  template <typename Value>
  void set(std::optional<Value>& place, std::string_view key, Value value) {
    if (place) refuse(path_, "found the key {} twice in its header", key);
    place = std::move(value);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void wrong(std::string_view what) const {
    refuse(path_, "found {} instead of {} in its header", shown(text_.substr(at_, 20)), what);
  }
  void expect(char c) {
    if (!take(c)) wrong(std::string_view(&c, 1));
  }
  std::string_view quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const std::size_t end = quote == '\0' ? std::string_view::npos : text_.find(quote, at_);
    if (end == std::string_view::npos) wrong("a text");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  std::string_view type_text() {
    if (take('[')) refuse(path_, "found a structured type; save each of its fields by itself");
    return quoted();
  }
  bool truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    wrong("True or False");
  }
  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::size_t size = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc()) wrong("a size");
      at_ += static_cast<std::size_t>(end - begin);
      if (sizes.size() == kMaxDimensions)
        refuse(path_, "found more than {} dimensions", kMaxDimensions);
      sizes.push_back(size);
      if (take(',')) continue;
      if (sizes.size() == 1) wrong(",");  // (6) is a number in Python, not a tuple
      expect(')');
      break;
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::optional<std::string_view> type_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::size_t>> shape_;
};

void set_type(std::string_view code, const std::string& path, NpyHeader& header) {
  if (code.ends_with('O'))
    refuse(path,
           "found Python objects, which would have to be unpickled and could run any program");
  const auto* const row =
      std::ranges::find(kTypes, code.substr(std::min<std::size_t>(1, code.size())), &TypeRow::code);
  const char order = code.empty() ? '\0' : code.front();
  const bool known =
      row != kTypes.end() && (order == '<' || order == '>' || (order == '|' && row->bytes == 1));
  if (!known) refuse(path, "found values of type {}", shown(code));
  header.type = row->type;
  header.big_endian = order == '>';
}

}  // namespace

std::string_view name_of(NpyType type) { return row_of(type).name; }
std::size_t bytes_of(NpyType type) { return row_of(type).bytes; }
bool is_whole(NpyType type) { return row_of(type).whole; }

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  NpyHeader header;
  const auto next = [&](std::size_t count) {
    if (count > text.size() - header.begin)
      refuse(path, "found its end {} bytes too early", count - (text.size() - header.begin));
    header.begin += count;
    return text.substr(header.begin - count, count);
  };
  if (next(kMagic.size()) != kMagic) refuse(path, "found other first bytes");
  const std::string_view version = next(2);
  const auto major = static_cast<unsigned char>(version[0]);
  if (major < 1 || major > 3 || version[1] != 0)
    refuse(path, "found format version {}.{}", major, static_cast<unsigned char>(version[1]));
  std::size_t length = 0;
  const std::string_view digits = next(major == 1 ? 2 : 4);
  for (std::size_t i = digits.size(); i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(digits[i]);
  if (length > kMaxHeader) refuse(path, "found a header of {} bytes", length);
  const Dictionary dictionary(next(length), path);
  set_type(dictionary.type(), path, header);
  header.fortran_order = dictionary.fortran_order();
  header.shape = dictionary.shape();

  const std::string what = "values of " + path;
  header.count = 1;
  for (const std::size_t size : header.shape)
    header.count = checked_product({header.count, size}, Kind::data, what);
  const std::size_t bytes =
      checked_product({header.count, bytes_of(header.type)}, Kind::data, "bytes of " + path);
  if (const std::size_t found = file.size() - header.begin; found != bytes)
    refuse(path, "found {} bytes for {} values of type {}", found, header.count,
           name_of(header.type));
  return header;
}

}  // namespace eqt::data
