// SPDX-License-Identifier: Apache-2.0
#include "analyze/npy_file.hpp"

#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "config/document.hpp"
#include "core/error.hpp"

namespace eqt::analyze {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they lie");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 65536;
constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 31;

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> format,
                         Args&&... args) {
  fail(Kind::data,
       "{}: expected a NumPy file with one dimension of little-endian float32, {}; "
       "output.dump_gradients writes such files, as does numpy.save(FILE, x.astype('<f4').ravel())",
       path, fmt::format(format, std::forward<Args>(args)...));
}

/// The header's dictionary: Python literals of texts, truths and tuples of numbers.
class Header {
 public:
  Header(std::string_view text, const std::string& path) : text_(text), path_(path) { read(); }

  const std::string& type() const { return type_; }
  std::uint64_t count() const { return count_; }

 private:
  void read() {
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        type_ = quoted();
      } else if (key == "fortran_order") {
        truth();
      } else if (key == "shape") {
        shape();
      } else {
        refuse(path_, "found the key {} in its header", config::shown_text(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) wrong("its end");
    if (type_.empty() || !has_shape_) refuse(path_, "found a header without descr or shape");
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
    refuse(path_, "found {} instead of {} in its header",
           config::shown_text(std::string(text_.substr(at_, 20))), what);
  }
  void expect(char c) {
    if (!take(c)) wrong(std::string(1, c));
  }
  std::string quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const std::size_t end = quote == '\0' ? text_.npos : text_.find(quote, at_);
    if (end == text_.npos) wrong("a text");
    const std::string found(text_.substr(at_, end - at_));
    at_ = end + 1;
    return found;
  }
  void truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return;
    }
    wrong("True or False");
  }
  void shape() {
    expect('(');
    skip_spaces();
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), count_);
    if (error != std::errc()) refuse(path_, "found another number of dimensions");
    at_ = static_cast<std::size_t>(end - text_.data());
    expect(',');
    if (!take(')')) refuse(path_, "found another number of dimensions");
    has_shape_ = true;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::string type_;
  std::uint64_t count_ = 0;
  bool has_shape_ = false;
};

std::string read_bytes(std::ifstream& file, std::size_t count, const std::string& path) {
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  if (static_cast<std::size_t>(file.gcount()) != count)
    refuse(path, "found its end {} bytes too early",
           count - static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// The length of the header, which follows magic and version.
std::size_t header_bytes(std::ifstream& file, const std::string& path) {
  const std::string start = read_bytes(file, kMagic.size() + 2, path);
  if (!start.starts_with(kMagic)) refuse(path, "found other first bytes");
  const int version = start[kMagic.size()];
  if (version < 1 || version > 3) refuse(path, "found format version {}", version);
  std::size_t length = 0;
  const std::string bytes = read_bytes(file, version == 1 ? 2 : 4, path);
  for (std::size_t i = bytes.size(); i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > kMaxHeader) refuse(path, "found a header of {} bytes", length);
  return length;
}

}  // namespace

std::vector<float> read_npy(const std::string& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  std::ifstream file(path, std::ios::binary);
  if (!is_file || !file) fail(Kind::data, "{}: expected a readable NumPy file, found none", path);
  const std::string text = read_bytes(file, header_bytes(file, path), path);
  const Header header(text, path);
  if (header.type() != "<f4")
    refuse(path, "found values of type {}", config::shown_text(header.type()));
  if (header.count() == 0 || header.count() > kMaxValues)
    refuse(path, "found {} values", header.count());
  const auto begin = static_cast<std::uint64_t>(file.tellg());
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error || size - begin != header.count() * sizeof(float))
    refuse(path, "found {} bytes for {} values", size - begin, header.count());
  std::vector<float> values(static_cast<std::size_t>(header.count()));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file) refuse(path, "found it shorter than it says");
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) refuse(path, "found {} at index {}", values[i], i);
  return values;
}

}  // namespace eqt::analyze
