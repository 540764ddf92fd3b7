// SPDX-License-Identifier: Apache-2.0
#include "text/rows.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace eqt::text {
namespace {

namespace fs = std::filesystem;

constexpr int kEnd = -1;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

/// The bytes of a file, one after another, with the number of their line.
class Bytes {
 public:
  explicit Bytes(const fs::path& path) : name_(path.string()) {
    std::error_code error;
    // A pipe or device would block or never end.
    if (!fs::is_regular_file(path, error))
      fail(Kind::data, "expected a file of labelled texts at {}, found {}; check data.path", name_,
           fs::exists(path, error) ? "something else" : "none");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (file_ == nullptr)
      fail(Kind::data, "cannot open {}: {}; check its permissions", name_, std::strerror(errno));
    skip_mark();
  }

  /// @param file that is open, and stays so if it is standard input
  Bytes(std::FILE* file, std::string name) : name_(std::move(name)), file_(file) { skip_mark(); }

  int peek() {
    if (at_ == held_) fill();
    return at_ == held_ ? kEnd : static_cast<unsigned char>(buffer_[at_]);
  }
  int next() {
    const int byte = peek();
    if (byte == kEnd) return kEnd;
    ++at_;
    if (byte == '\n') ++line_;
    if (++row_bytes_ > kLongestRow) {
      fail(Kind::data,
           "expected rows of at most {} bytes in {}, found a longer one from line {} on; is a "
           "closing quote missing?",
           kLongestRow, name_, row_line_);
    }
    return byte;
  }
  /// A row begins here.
  void begin_row() {
    row_bytes_ = 0;
    row_line_ = line_;
  }

  const std::string& name() const { return name_; }
  std::uint64_t line() const { return line_; }
  std::uint64_t row_line() const { return row_line_; }

 private:
  void fill() {
    if (std::feof(file_.get()) != 0) return;
    at_ = 0;
    held_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
    if (std::ferror(file_.get()) != 0)
      fail(Kind::data, "reading {} failed: {}; check the disk", name_, std::strerror(errno));
  }
  void skip_mark() {
    fill();
    if (std::string_view(buffer_.data(), held_).starts_with(kByteOrderMark))
      at_ = kByteOrderMark.size();
  }

  std::string name_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::array<char, 65536> buffer_;
  std::size_t held_ = 0, at_ = 0;  // [bytes] of the buffer
  std::uint64_t line_ = 1, row_line_ = 1;
  std::size_t row_bytes_ = 0;
};

/// Whether the row ends here, by a line end or the file's; if so, behind it.
bool ends_row(Bytes& bytes) {
  if (bytes.peek() == kEnd) return true;
  if (bytes.peek() != '\n') return false;
  bytes.next();
  return true;
}

/// A field behind its opening quote, up to what follows the closing one.
std::string read_quoted(Bytes& bytes) {
  const std::uint64_t opened = bytes.line();
  std::string field;
  while (true) {
    const int byte = bytes.next();
    if (byte == kEnd)
      fail(Kind::data, "{}, line {}: expected a closing quote, found the end of the file; close it",
           bytes.name(), opened);
    if (byte != '"') {
      field.push_back(static_cast<char>(byte));
    } else if (bytes.peek() == '"') {
      field.push_back(static_cast<char>(bytes.next()));
    } else {
      return field;
    }
  }
}

/// A field up to what follows it. @param separator comma or tab
std::string read_plain(Bytes& bytes, char separator) {
  std::string field;
  for (int byte = bytes.peek(); byte != kEnd && byte != '\n' && byte != separator;
       byte = bytes.peek()) {
    if (byte == '"' && separator == ',')
      fail(Kind::data,
           "{}, line {}: expected a field in quotes or without any, found a quote inside one; put "
           "the field in quotes and write each of its own twice",
           bytes.name(), bytes.line());
    field.push_back(static_cast<char>(bytes.next()));
  }
  if (bytes.peek() != separator && field.ends_with('\r')) field.pop_back();
  return field;
}

/// The fields of a row. @pre bytes.peek() is not the end
std::vector<std::string> read_fields(Bytes& bytes, char separator) {
  std::vector<std::string> fields;
  while (true) {
    const bool quoted = separator == ',' && bytes.peek() == '"';
    if (quoted) {
      bytes.next();
      fields.push_back(read_quoted(bytes));
      if (bytes.peek() == '\r') bytes.next();
    } else {
      fields.push_back(read_plain(bytes, separator));
    }
    if (ends_row(bytes)) return fields;
    if (bytes.peek() != separator)
      fail(Kind::data,
           "{}, line {}: expected a comma or the end of the line behind a closing quote, found "
           "other text; write quotes inside a field twice",
           bytes.name(), bytes.line());
    bytes.next();
  }
}

bool is_heading(const std::vector<std::string>& fields) {
  std::string first = fields.front();
  std::ranges::transform(first, first.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return first == "label" || first == "class";
}

/// The class, and the columns of text as one.
Row row_of(std::vector<std::string>&& fields, const Bytes& bytes) {
  if (fields.size() < 2)
    fail(Kind::data, "{}, line {}: expected a class and one column of text or more, found {}",
         bytes.name(), bytes.row_line(), fields.size() == 1 ? "one field" : "nothing");
  Row row{.label = std::move(fields[0]), .text = std::move(fields[1]), .line = bytes.row_line()};
  for (std::size_t i = 2; i < fields.size(); ++i) row.text += ' ' + fields[i];
  return row;
}

void read_separated(Bytes& bytes, char separator, const std::function<void(Row&&)>& take) {
  for (bool first = true; bytes.peek() != kEnd; first = false) {
    bytes.begin_row();
    std::vector<std::string> fields = read_fields(bytes, separator);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (first && is_heading(fields)) continue;
    take(row_of(std::move(fields), bytes));
  }
}

/// A text or a whole number, as a text.
std::string label_in(const nlohmann::json& object, const Bytes& bytes) {
  const auto found = object.find("label");
  if (found != object.end() && found->is_string()) return *found;
  if (found != object.end() && found->is_number_integer()) return found->dump();
  fail(Kind::data,
       "{}, line {}: expected a member \"label\" that is a text or a whole number, found {}",
       bytes.name(), bytes.row_line(), found == object.end() ? "none" : found->type_name());
}

Row row_of(const std::string& line, const Bytes& bytes) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    fail(Kind::data, "{}, line {}: expected a JSON object, found {}; write one object a line",
         bytes.name(), bytes.row_line(),
         object.is_discarded() ? "text that is no JSON" : object.type_name());
  const auto found = object.find("text");
  if (found == object.end() || !found->is_string())
    fail(Kind::data, "{}, line {}: expected a member \"text\" that is a text, found {}",
         bytes.name(), bytes.row_line(), found == object.end() ? "none" : found->type_name());
  return {.label = label_in(object, bytes), .text = *found, .line = bytes.row_line()};
}

/// Up to behind its end. @pre bytes.peek() is not the end of the file
std::string read_line(Bytes& bytes) {
  bytes.begin_row();
  std::string line;
  while (!ends_row(bytes)) line.push_back(static_cast<char>(bytes.next()));
  return line;
}

void read_json_lines(Bytes& bytes, const std::function<void(Row&&)>& take) {
  while (bytes.peek() != kEnd) {
    const std::string line = read_line(bytes);
    if (line.find_first_not_of(" \t\r") != std::string::npos) take(row_of(line, bytes));
  }
}

}  // namespace

void read_rows(const fs::path& file, RowFormat format, const std::function<void(Row&&)>& take) {
  const auto bytes = std::make_unique<Bytes>(file);
  if (format == RowFormat::json_lines) return read_json_lines(*bytes, take);
  read_separated(*bytes, format == RowFormat::csv ? ',' : '\t', take);
}

void read_lines(const fs::path& file, const std::function<void(std::string_view)>& take) {
  const auto bytes = std::make_unique<Bytes>(file);
  while (bytes->peek() != kEnd) take(read_line(*bytes));
}

void read_standard_input(const std::function<void(std::string_view)>& take) {
  const auto bytes = std::make_unique<Bytes>(stdin, "standard input");
  while (bytes->peek() != kEnd) take(read_line(*bytes));
}

}  // namespace eqt::text
