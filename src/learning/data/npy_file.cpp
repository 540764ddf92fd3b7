// SPDX-License-Identifier: Apache-2.0
#include "data/npy_file.hpp"

#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/to_float.hpp"
#include "data/files.hpp"

namespace eqt::data {
namespace {

[[noreturn]] void refuse_mapping(const std::filesystem::path& file, const char* reason) {
  fail(Kind::data, "expected a readable file {}, found: {}; check data.path and its permissions",
       file.string(), reason);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file)
    : file_(file), opened_(std::make_unique<Descriptor>(file)) {
  struct stat facts = {};
  if (opened_->number() < 0 || fstat(opened_->number(), &facts) != 0)
    refuse_mapping(file, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) refuse_mapping(file, "something else than a regular file");
  const auto count = static_cast<std::size_t>(facts.st_size);
  if (count == 0) return;
  void* const place = mmap(nullptr, count, PROT_READ, MAP_PRIVATE, opened_->number(), 0);
  if (place == MAP_FAILED) refuse_mapping(file, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(place), count};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      opened_(std::move(other.opened_)),
      bytes_(std::exchange(other.bytes_, {})) {}

void MappedFile::require_whole() const {
  struct stat facts = {};
  if (fstat(opened_->number(), &facts) != 0) refuse_mapping(file_, std::strerror(errno));
  if (static_cast<std::uint64_t>(facts.st_size) >= bytes_.size()) return;
  fail(Kind::data,
       "expected {} bytes in {}, as when the run began, found {}; do not change the data of a run",
       bytes_.size(), file_.string(), facts.st_size);
}

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

namespace {

/// Reads the header of a file and compares its length with what the header says.
/// @param path for messages
/// @throws Error{data} for anything that is no array of plain numbers, or a file that is longer or
/// shorter than that
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

/// IEEE 754 binary16, by its bits.
struct Half {
  std::uint16_t bits;
};

template <typename Stored>
Stored load(const std::byte* from, bool swapped) {
  std::array<std::byte, sizeof(Stored)> bytes;
  std::memcpy(bytes.data(), from, bytes.size());
  if (swapped) std::ranges::reverse(bytes);
  return std::bit_cast<Stored>(bytes);
}

template <typename To, typename Stored>
To number(Stored value) {
  if constexpr (std::is_same_v<Stored, Half>)
    return static_cast<To>(half_to_float(value.bits));
  else if constexpr (std::is_same_v<To, std::int64_t> && std::is_same_v<Stored, std::uint64_t>)
    return static_cast<To>(
        std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
  else if constexpr (std::is_same_v<To, float> && std::is_same_v<Stored, double>)
    return double_to_float(value);
  else
    return static_cast<To>(value);
}

template <typename Stored, typename To>
void convert_from(const std::byte* from, bool swapped, std::span<To> out) {
  for (To& value : out) {
    value = number<To>(load<Stored>(from, swapped));
    from += sizeof(Stored);
  }
}

/// A truth is a byte; all but 0 are true.
template <typename To>
void convert_truths(const std::byte* from, std::span<To> out) {
  for (To& value : out) value = *from++ == std::byte{0} ? To{0} : To{1};
}

bool order_matters(std::span<const std::size_t> shape) {
  return std::ranges::count_if(shape, [](std::size_t size) { return size > 1; }) > 1;
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& file)
    : path_(file.string()), file_(file), header_(parse_npy_header(file_.bytes(), path_)) {
  if (header_.fortran_order && order_matters(header_.shape))
    fail(Kind::data,
         "{}: expected an array in row-major order (C), found Fortran's order of shape {}; save "
         "numpy.ascontiguousarray(x)",
         path_, shape_text(header_.shape));
}

template <typename To>
void NpyFile::convert(std::size_t first, std::span<To> out) const {
  EQT_CHECK(first <= size() && out.size() <= size() - first, "values {} to {} of {}", first,
            first + out.size(), size());
  file_.require_whole();
  const std::byte* const from = file_.bytes().data() + header_.begin + first * bytes_of(type());
  const bool swapped = header_.big_endian != (std::endian::native == std::endian::big);
  switch (type()) {
    case NpyType::boolean:
      return convert_truths(from, out);
    case NpyType::int8:
      return convert_from<std::int8_t>(from, swapped, out);
    case NpyType::int16:
      return convert_from<std::int16_t>(from, swapped, out);
    case NpyType::int32:
      return convert_from<std::int32_t>(from, swapped, out);
    case NpyType::int64:
      return convert_from<std::int64_t>(from, swapped, out);
    case NpyType::uint8:
      return convert_from<std::uint8_t>(from, swapped, out);
    case NpyType::uint16:
      return convert_from<std::uint16_t>(from, swapped, out);
    case NpyType::uint32:
      return convert_from<std::uint32_t>(from, swapped, out);
    case NpyType::uint64:
      return convert_from<std::uint64_t>(from, swapped, out);
    case NpyType::float16:
      if constexpr (std::is_floating_point_v<To>) return convert_from<Half>(from, swapped, out);
      break;
    case NpyType::float32:
      if constexpr (std::is_floating_point_v<To>) return convert_from<float>(from, swapped, out);
      break;
    case NpyType::float64:
      if constexpr (std::is_floating_point_v<To>) return convert_from<double>(from, swapped, out);
      break;
  }
  fail(Kind::bug, "{} are read as whole numbers", name_of(type()));
}

void NpyFile::read(std::size_t first, std::span<float> out) const { convert(first, out); }
void NpyFile::read(std::size_t first, std::span<double> out) const { convert(first, out); }
void NpyFile::read(std::size_t first, std::span<std::int64_t> out) const { convert(first, out); }

std::string shape_text(std::span<const std::size_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace eqt::data
