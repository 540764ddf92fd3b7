// SPDX-License-Identifier: Apache-2.0
#include "data/text/rows.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr int kEnd = -1;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kWideMarks[] = {"\xFF\xFE", "\xFE\xFF"};  // of UTF-16
constexpr std::string_view kBlank = " \t";

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

/// The bytes of a file, one after another, with the number of their line.
class Bytes {
 public:
  /// @param longest [bytes] of a row
  explicit Bytes(const fs::path& path, std::size_t longest = kLongestRow)
      : name_(path.string()), longest_(longest) {
    std::error_code error;
    // A pipe or device would block or never end.
    if (!fs::is_regular_file(path, error))
      fail(Kind::data, "expected a text file at {}, found {}; check its path", name_,
           fs::exists(path, error) ? "something else" : "none");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (file_ == nullptr)
      fail(Kind::data, "cannot open {}: {}; check its permissions", name_, std::strerror(errno));
    skip_mark();
  }

  /// @param file that is open, and stays so if it is standard input
  Bytes(std::FILE* file, std::string name) : name_(std::move(name)), file_(file) { skip_mark(); }

  /// The byte that next() will give; kEnd: the file ends here.
  int peek() {
    int byte = held();
    if (ended_by_cr_ && byte == '\n') {  // CR LF ends one line
      ++at_;
      byte = held();
    }
    ended_by_cr_ = false;
    return byte;
  }
  int next() {
    const int byte = peek();
    if (byte == kEnd) return kEnd;
    ++at_;
    const bool behind_cr = std::exchange(last_was_cr_, byte == '\r');
    if (byte == '\r' || (byte == '\n' && !behind_cr)) ++line_;
    if (++row_bytes_ > longest_) {
      fail(Kind::data,
           "expected rows of at most {} bytes in {}, found a longer one from line {} on; is a "
           "closing quote missing?",
           longest_, name_, row_line_);
    }
    return byte;
  }
  /// Returns true where a line ends here, by its end or the file's, and goes on behind it. Does not
  /// wait for what follows.
  bool ends_line() {
    const int byte = peek();
    if (byte == kEnd) return true;
    if (byte != '\n' && byte != '\r') return false;
    next();
    last_was_cr_ = false;
    ended_by_cr_ = byte == '\r';
    return true;
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
  int held() {
    if (at_ == held_) fill();
    return at_ == held_ ? kEnd : static_cast<unsigned char>(buffer_[at_]);
  }
  void fill() {
    if (std::feof(file_.get()) != 0) return;
    at_ = 0;
    held_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
    if (std::ferror(file_.get()) != 0)
      fail(Kind::data, "reading {} failed: {}; check the disk", name_, std::strerror(errno));
  }
  void skip_mark() {
    fill();
    const std::string_view begin(buffer_.data(), held_);
    if (begin.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    for (const std::string_view mark : kWideMarks)
      if (begin.starts_with(mark))
        fail(Kind::data, "expected UTF-8 in {}, found UTF-16; save it as UTF-8", name_);
  }

  std::string name_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::array<char, 65536> buffer_;
  std::size_t held_ = 0, at_ = 0;  // [bytes] of the buffer
  std::uint64_t line_ = 1, row_line_ = 1;
  std::size_t row_bytes_ = 0, longest_ = kLongestRow;
  bool last_was_cr_ = false;  // of the line at hand
  bool ended_by_cr_ = false;  // a line, so that a line feed belongs to its end
};

void skip_blanks(Bytes& bytes, char separator) {
  while (bytes.peek() == ' ' || (bytes.peek() == '\t' && separator != '\t')) bytes.next();
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

/// A field up to what follows it, or up to the quote that opens it. @param separator comma or tab
std::string read_plain(Bytes& bytes, char separator) {
  std::string field;
  for (int byte = bytes.peek(); byte != kEnd && byte != '\n' && byte != '\r' && byte != separator;
       byte = bytes.peek()) {
    if (byte == '"' && separator == ',') {
      if (field.find_first_not_of(kBlank) == std::string::npos) return {};
      fail(Kind::data,
           "{}, line {}: expected a field in quotes or without any, found a quote inside one; put "
           "the field in quotes and write each of its own twice",
           bytes.name(), bytes.line());
    }
    field.push_back(static_cast<char>(bytes.next()));
  }
  return field;
}

/// The fields of a row. @pre bytes.peek() is not the end
std::vector<std::string> take_fields(Bytes& bytes, char separator) {
  std::vector<std::string> fields;
  while (true) {
    if (fields.size() == kMostFields)
      fail(Kind::data, "{}, line {}: expected at most {} fields in a row, found more", bytes.name(),
           bytes.row_line(), kMostFields);
    fields.push_back(read_plain(bytes, separator));
    if (separator == ',' && bytes.peek() == '"') {
      bytes.next();
      fields.back() = read_quoted(bytes);
      skip_blanks(bytes, separator);
    }
    if (bytes.ends_line()) return fields;
    if (bytes.peek() != separator)
      fail(Kind::data,
           "{}, line {}: expected a comma or the end of the line behind a closing quote, found "
           "other text; write quotes inside a field twice",
           bytes.name(), bytes.line());
    bytes.next();
  }
}

/// A name as people mean it: "Class_Index " is "class index".
std::string meant(std::string_view column) {
  std::string name;
  for (const char c : column) {
    const bool is_gap = c == '_' || c == '-' || kBlank.find(c) != std::string_view::npos;
    if (!is_gap)
      name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!name.empty() && name.back() != ' ')
      name += ' ';
  }
  if (name.ends_with(' ')) name.pop_back();
  return name;
}

bool names_text(std::string_view column) {
  constexpr std::string_view kNames[] = {"text", "review", "sentence", "message"};
  return std::ranges::find(kNames, meant(column)) != std::end(kNames);
}

/// Tells which fields of a row are the label and the texts.
struct Columns {
  std::size_t count = 0;  // of the heading; 0: there is none
  std::size_t label = 0;
  std::vector<std::size_t> texts;  // without a heading all but the first
};

/// The heading that a first row is, if it is one.
std::optional<Columns> columns_in(const std::vector<std::string>& fields, const Bytes& bytes) {
  std::vector<std::size_t> labels, texts, others;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (names_class(fields[i]))
      labels.push_back(i);
    else if (names_text(fields[i]))
      texts.push_back(i);
    else if (!names_index(fields[i]))
      others.push_back(i);
  }
  if (labels.empty()) return std::nullopt;
  const bool leads = labels.front() == 0 || (labels.front() == 1 && names_index(fields[0]));
  if (!leads && texts.empty()) return std::nullopt;
  if (labels.size() > 1)
    fail(Kind::data,
         "{}, line {}: expected one column for the class, found \"{}\" and \"{}\"; rename or leave "
         "out the one that is not it",
         bytes.name(), bytes.row_line(), fields[labels[0]], fields[labels[1]]);
  if (texts.empty()) texts = std::move(others);
  if (texts.empty())
    fail(Kind::data,
         "{}, line {}: expected a column of text beside \"{}\", found none; call it \"text\"",
         bytes.name(), bytes.row_line(), fields[labels[0]]);
  return Columns{.count = fields.size(), .label = labels.front(), .texts = std::move(texts)};
}

Heading heading_of(const std::vector<std::string>& fields, const Columns& columns) {
  Heading heading{.label = fields[columns.label], .texts = {}, .unread = {}};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i == columns.label) continue;
    const bool is_text = std::ranges::find(columns.texts, i) != columns.texts.end();
    (is_text ? heading.texts : heading.unread).push_back(fields[i]);
  }
  return heading;
}

/// Without a heading a row may have any number of columns of text, and with one more than it names
/// if the last is text: commas of texts that are not in quotes.
Row row_of(std::vector<std::string>&& fields, const Columns& columns, const Bytes& bytes) {
  const std::size_t named = columns.count;
  if (named == 0 && fields.size() < 2)
    fail(Kind::data,
         "{}, line {}: expected a class and one column of text or more, found one field",
         bytes.name(), bytes.row_line());
  const bool has_more = fields.size() > named && (named == 0 || columns.texts.back() == named - 1);
  if (fields.size() != named && !has_more)
    fail(Kind::data,
         "{}, line {}: expected {} fields, as the heading has, found {}; put texts with commas in "
         "quotes",
         bytes.name(), bytes.row_line(), named, fields.size());
  Row row{.label = std::move(fields[columns.label]), .text = {}, .line = bytes.row_line()};
  bool is_first = true;
  const auto add = [&](const std::string& field) {
    if (!std::exchange(is_first, false)) row.text += ' ';
    row.text += field;
  };
  for (const std::size_t i : columns.texts) add(fields[i]);
  for (std::size_t i = std::max<std::size_t>(named, 1); i < fields.size(); ++i) add(fields[i]);
  return row;
}

[[noreturn]] void refuse_counted(const Bytes& bytes) {
  fail(Kind::data,
       "{}, line {}: expected a class and its text, found the numbers that pandas writes above "
       "columns without names; call the columns \"label\" and \"text\", or leave the line out",
       bytes.name(), bytes.row_line());
}

std::optional<Heading> read_separated(Bytes& bytes, char separator,
                                      const std::function<void(Row&&)>& take) {
  std::optional<Heading> heading;
  Columns columns;
  for (bool first = true; bytes.peek() != kEnd;) {
    bytes.begin_row();
    std::vector<std::string> fields = take_fields(bytes, separator);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (std::exchange(first, false)) {
      if (const auto found = columns_in(fields, bytes)) {
        columns = *found;
        heading = heading_of(fields, columns);
        continue;
      }
      if (counts_columns(fields)) refuse_counted(bytes);
    }
    take(row_of(std::move(fields), columns, bytes));
  }
  return heading;
}

/// The member with this name, else the only one that means it.
/// @param means whether a name does
const nlohmann::json* member_of(const nlohmann::json& object, const char* name,
                                bool (*means)(std::string_view), const Bytes& bytes) {
  if (const auto found = object.find(name); found != object.end()) return &*found;
  const nlohmann::json* member = nullptr;
  for (const auto& [key, value] : object.items()) {
    if (!means(key)) continue;
    if (member != nullptr)
      fail(Kind::data,
           "{}, line {}: expected one member \"{}\", found several of that meaning; "
           "leave out those that are not it",
           bytes.name(), bytes.row_line(), name);
    member = &value;
  }
  return member;
}

/// A text or a whole number, as a text.
std::string label_in(const nlohmann::json& object, const Bytes& bytes) {
  const nlohmann::json* const found = member_of(object, "label", names_class, bytes);
  if (found != nullptr && found->is_string()) return *found;
  if (found != nullptr && found->is_number_integer()) return found->dump();
  constexpr double kLargest = 1e15;  // written without an exponent
  if (found != nullptr && found->is_number_float())
    if (const double number = *found; number == std::trunc(number) && std::abs(number) < kLargest)
      return fmt::format("{:.0f}", number + 0.0);
  fail(Kind::data,
       "{}, line {}: expected a member \"label\" that is a text or a whole number, found {}",
       bytes.name(), bytes.row_line(), found == nullptr ? "none" : found->type_name());
}

Row row_of(const std::string& line, const Bytes& bytes) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    fail(Kind::data, "{}, line {}: expected a JSON object, found {}; write one object a line",
         bytes.name(), bytes.row_line(),
         object.is_discarded() ? "text that is no JSON" : object.type_name());
  const nlohmann::json* const found = member_of(object, "text", names_text, bytes);
  if (found == nullptr || !found->is_string())
    fail(Kind::data, "{}, line {}: expected a member \"text\" that is a text, found {}",
         bytes.name(), bytes.row_line(), found == nullptr ? "none" : found->type_name());
  return {.label = label_in(object, bytes), .text = *found, .line = bytes.row_line()};
}

/// Up to behind its end. @pre bytes.peek() is not the end of the file
std::string read_line(Bytes& bytes) {
  bytes.begin_row();
  std::string line;
  while (!bytes.ends_line()) line.push_back(static_cast<char>(bytes.next()));
  return line;
}

void read_json_lines(Bytes& bytes, const std::function<void(Row&&)>& take) {
  while (bytes.peek() != kEnd) {
    const std::string line = read_line(bytes);
    if (line.find_first_not_of(kBlank) != std::string::npos) take(row_of(line, bytes));
  }
}

char separator_of(RowFormat format) { return format == RowFormat::csv ? ',' : '\t'; }

}  // namespace

std::optional<RowFormat> format_of_rows(const fs::path& file) {
  const fs::path ending = file.extension();
  if (ending == ".csv") return RowFormat::csv;
  if (ending == ".tsv") return RowFormat::tsv;
  if (ending == ".jsonl") return RowFormat::json_lines;
  return std::nullopt;
}

bool names_class(std::string_view column) {
  constexpr std::string_view kNames[] = {"label",    "class",     "class index",
                                         "category", "sentiment", "target"};
  return std::ranges::find(kNames, meant(column)) != std::end(kNames);
}

bool names_index(std::string_view column) {
  const std::string name = meant(column);
  return name.empty() || name == "unnamed: 0";
}

bool counts_columns(std::span<const std::string> fields) {
  if (fields.empty()) return false;
  // Their index has no name.
  if (names_index(fields.front())) fields = fields.subspan(1);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i] != fmt::format("{}", i)) return false;
  return fields.size() > 1;
}

void read_fields(const fs::path& file, RowFormat format, std::size_t longest,
                 const std::function<void(std::vector<std::string>&&, std::uint64_t)>& take) {
  const auto bytes = std::make_unique<Bytes>(file, longest);
  while (bytes->peek() != kEnd) {
    bytes->begin_row();
    take(take_fields(*bytes, separator_of(format)), bytes->row_line());
  }
}

std::optional<Heading> read_rows(const fs::path& file, RowFormat format,
                                 const std::function<void(Row&&)>& take) {
  const auto bytes = std::make_unique<Bytes>(file);
  if (format != RowFormat::json_lines) return read_separated(*bytes, separator_of(format), take);
  read_json_lines(*bytes, take);
  return std::nullopt;
}

void read_lines(const fs::path& file, const std::function<void(std::string_view)>& take) {
  const auto bytes = std::make_unique<Bytes>(file);
  while (bytes->peek() != kEnd) take(read_line(*bytes));
}

void read_standard_input(const std::function<void(std::string_view)>& take) {
  const auto bytes = std::make_unique<Bytes>(stdin, "standard input");
  while (bytes->peek() != kEnd) take(read_line(*bytes));
}

}  // namespace eqt::data
