// SPDX-License-Identifier: Apache-2.0
#include "weights/script_archive.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/foreign_file.hpp"
#include "weights/pickle.hpp"
#include "weights/torch_file.hpp"
#include "weights/zip_archive.hpp"

namespace eqt::weights {
namespace {

// LibTorch 1.13 overflows a stack of 8 MiB from about 1500 functions on of which each calls the
// next, and from 3000 brackets, indentations or classes on; blank lines from some 10000 on.
constexpr std::size_t kDeepestCode = 1200, kOfDefinition = 4, kBlankLines = 1000,
                      kLongestName = 4096;

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

/// The classes and functions of an archive. LibTorch reads them by functions that call themselves:
/// for each bracket, operator and indentation, and for each class or function that another one
/// names. So deep code is the end of its stack, and of the process. What is refused:
///
///   depth: a class or function that together with all that it names in turn has more than
///     a thousand levels; what torch.jit.save writes has some dozen
///   __setstate__, which LibTorch would run while it reads the file, before anybody sees its code
///   names of other code, such as classes of libraries, and what torch.jit.save never writes
///
/// Time and memory are nearly linear in the code's bytes. Format: torch/csrc/jit/frontend/lexer.h
/// and torch/csrc/jit/serialization/import_source.cpp.
class ScriptCode {
 public:
  explicit ScriptCode(const ForeignFile& file) : file_(file) {}

  /// A file's text; `module` is "__torch__.torch.nn" of code/__torch__/torch/nn.py.
  /// @throws Error{data}
  void read(const std::string& module, std::string_view text);
  /// Called after the last file.
  /// @throws Error{data}
  void check_names() const;
  enum class ClassKind { none, with_objects, enumeration };
  /// Returns what the archive may have of this class: with_objects is without a base or with the
  /// base Module; none has another base or is no class of the code.
  ClassKind kind_of(const std::string& name) const;
  /// True if the enumeration has this number or text. LibTorch's reader would go on without a value
  /// if it had not.
  bool has_value(const std::string& name, const PickleValue& value) const;

 private:
  struct Definition {
    ClassKind kind = ClassKind::none;
    std::size_t nesting = 0;              // brackets, operators, indentation
    std::vector<std::string> names = {};  // of others, in full
    std::set<std::string> literals = {};  // of an enumeration, as they stand in the code
  };
  class Reader;

  std::vector<std::size_t> named_by(const Definition& definition) const;

  const ForeignFile& file_;
  std::vector<Definition> definitions_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// Splits a file into tokens as LibTorch does, and counts where each leads.
class ScriptCode::Reader {
 public:
  Reader(ScriptCode& code, const std::string& module, std::string_view text)
      : code_(code), module_(module), text_(text) {}

  void read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        end_line();
      } else if (is_blank(c)) {
        indentation_ += line_is_blank_ ? 1 : 0;
        ++at_;
      } else if (c == '#') {
        skip_comment();
      } else {
        read_token(c);
      }
    }
    end_name();
    if (brackets_.size() > 1) refuse("has a bracket that is not closed");
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    weights::refuse(code_.file_, "the code of {} {} in line {}", printable(module_), what, line_);
  }

  void end_line() {
    ++at_;
    ++line_;
    if (++blank_lines_ > kBlankLines) refuse("has too many empty lines");
    if (brackets_.size() > 1) return;  // the statement goes on
    end_name();
    chain_ -= brackets_.back();
    brackets_.back() = 0;
    line_is_blank_ = true;
    indentation_ = 0;
  }
  void skip_comment() {
    if (text_.substr(at_).starts_with("# type:")) refuse("has a type comment");
    at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void read_token(char c) {
    blank_lines_ = 0;
    first_ = line_is_blank_;
    if (first_) begin_statement();
    if (begins_name(c)) return read_word();
    if (expects_ == Expects::base) current().kind = ClassKind::none;
    if (expects_ != Expects::bracket) expects_ = Expects::nothing;
    if (is_digit(c)) {
      end_name();
      const std::size_t begin = at_;
      at_ = std::min(text_.find_first_not_of("0123456789.", at_), text_.size());
      const bool goes_on = at_ < text_.size() && begins_name(text_[at_]);  // 1e5, 1j
      if (!goes_on) keep_literal(begin);
    } else if (c == '"' || c == '\'') {
      end_name();
      const std::size_t begin = at_;
      skip_text(c);
      keep_literal(begin);
    } else {
      read_sign(c);
    }
  }

  void keep_literal(std::size_t begin) {
    if (!defined_ || current().kind != ClassKind::enumeration) return;
    if (after_literal_) refuse("has two values side by side");  // LibTorch makes one of them
    after_literal_ = true;
    current().literals.emplace(text_.substr(begin, at_ - begin));
  }

  void begin_statement() {
    after_literal_ = false;
    line_is_blank_ = false;
    while (!indents_.empty() && indents_.back() >= indentation_) indents_.pop_back();
    if (indentation_ > 0) indents_.push_back(indentation_);
  }

  void read_word() {
    after_literal_ = false;
    const std::size_t begin = at_;
    while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "__setstate__") refuse("has __setstate__, which would run while the file is read,");
    if (after_dot_) {
      if (!name_.empty()) name_.append(".").append(word);
    } else {
      end_name();
      if (word == "__torch__") name_ = word;
    }
    if (name_.size() > kLongestName) refuse("has too long a name");
    after_dot_ = false;
    const Expects expected = std::exchange(expects_, Expects::nothing);
    if (expected == Expects::name) return define(word);
    if (expected == Expects::base)
      current().kind = word == "Module" ? ClassKind::with_objects
                       : word == "Enum" ? ClassKind::enumeration
                                        : ClassKind::none;
    if (first_ && indents_.empty() && (word == "class" || word == "def")) {
      is_class_ = word == "class";
      expects_ = Expects::name;
    }
    constexpr std::array<std::string_view, 8> kOperators = {"and",  "or", "not", "if",
                                                            "else", "in", "is",  "lambda"};
    if (word == "elif") ++branches_;
    if (std::ranges::find(kOperators, word) != kOperators.end()) count();
  }

  void define(std::string_view name) {
    const auto [place, is_new] =
        code_.by_name_.emplace(module_ + "." + std::string(name), code_.definitions_.size());
    if (!is_new) refuse("defines " + printable(name) + " twice,");
    code_.definitions_.push_back({.kind = is_class_ ? ClassKind::with_objects : ClassKind::none});
    defined_ = true;
    branches_ = 0;
    if (is_class_) expects_ = Expects::bracket;
  }
  Definition& current() {
    if (!defined_) refuse("begins with neither a class nor a function");
    return code_.definitions_.back();
  }

  void read_sign(char c) {
    if (c <= ' ' || c > '~' || c == '\\' || c == ';' || c == '`' || c == '$')
      refuse("has the byte " + std::to_string(static_cast<unsigned char>(c)));
    ++at_;
    after_literal_ = false;
    const bool is_dot = c == '.';
    if (!is_dot) end_name();
    after_dot_ = is_dot;
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.size() == 1) refuse("closes a bracket that is not open");
      chain_ -= brackets_.back();
      brackets_.pop_back();
      return;
    }
    if (c == ',') {
      chain_ -= brackets_.back();
      brackets_.back() = 0;
      return;
    }
    count();
    const bool has_base = std::exchange(expects_, Expects::nothing) == Expects::bracket && c == '(';
    if (has_base) expects_ = Expects::base;
    if (c == '(' || c == '[' || c == '{') brackets_.push_back(0);
  }

  /// Skips a text as LibTorch does: to the next such quotation marks that no backslash precedes.
  void skip_text(char mark) {
    const std::string three(3, mark);
    const std::string marks = text_.substr(at_, 3) == three ? three : std::string(1, mark);
    for (at_ += marks.size(); at_ < text_.size(); ++at_) {
      if (text_.substr(at_).starts_with(marks)) break;
      if (text_[at_] == '\n') {
        if (marks.size() == 1) refuse("has a text that does not end");
        ++line_;
      }
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) refuse("has a text that does not end");
    at_ += marks.size();
  }

  /// One level more, until the next comma or the statement's end.
  void count() {
    ++brackets_.back();
    ++chain_;
    const std::size_t nesting = chain_ + brackets_.size() + indents_.size() + branches_;
    if (nesting > kDeepestCode) refuse("is nested too deeply");
    current().nesting = std::max(current().nesting, nesting);
  }

  void end_name() {
    after_dot_ = false;
    if (name_.empty()) return;
    current().names.push_back(std::exchange(name_, {}));
  }

  enum class Expects { nothing, name, bracket, base };

  ScriptCode& code_;
  const std::string& module_;
  const std::string_view text_;
  std::size_t at_ = 0, line_ = 1, blank_lines_ = 0;
  std::size_t indentation_ = 0;  // of this line
  bool line_is_blank_ = true;    // so far
  std::vector<std::size_t> indents_;
  std::vector<std::size_t> brackets_ = {0};  // open ones: operators since the last comma
  std::size_t chain_ = 0;                    // the sum of these
  std::size_t branches_ = 0;                 // elif, which LibTorch reads as if in else
  std::string name_;                         // "__torch__.a.b" so far
  bool first_ = false;                       // of a statement's tokens
  bool after_dot_ = false, after_literal_ = false, defined_ = false, is_class_ = false;
  Expects expects_ = Expects::nothing;
};

void ScriptCode::read(const std::string& module, std::string_view text) {
  Reader(*this, module, text).read();
}

/// The definitions that these names may mean: LibTorch looks for each part up to a dot.
std::vector<std::size_t> ScriptCode::named_by(const Definition& definition) const {
  std::vector<std::size_t> places;
  for (const std::string_view name : definition.names) {
    const std::size_t before = places.size();
    for (std::size_t dot = name.find('.'); dot != name.npos;) {
      dot = name.find('.', dot + 1);
      const auto found = by_name_.find(name.substr(0, dot));
      if (found != by_name_.end()) places.push_back(found->second);
    }
    if (places.size() == before)
      refuse(file_, "its code names {}, which it does not have", printable(name));
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

/// Definitions that name each other in a circle are one: together they lead as deep as all of them
/// (R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1 (1972)).
void ScriptCode::check_names() const {
  struct Node {
    std::vector<std::size_t> next;
    std::size_t taken = 0;              // of these
    std::size_t number = 0, least = 0;  // 0: not seen
    std::size_t depth = 0;              // 0: its circle is not complete
  };
  std::vector<Node> nodes(definitions_.size());
  std::vector<std::size_t> path, open;
  std::size_t seen = 0;
  const auto enter = [&](std::size_t place) {
    nodes[place].next = named_by(definitions_[place]);
    nodes[place].number = nodes[place].least = ++seen;
    path.push_back(place);
    open.push_back(place);
  };
  const auto close_circle = [&](std::size_t first) {
    const auto begin = std::find(open.rbegin(), open.rend(), first).base() - 1;
    std::size_t own = 0, below = 0;
    for (auto at = begin; at != open.end(); ++at) {
      own += kOfDefinition + definitions_[*at].nesting;
      for (const std::size_t other : nodes[*at].next) below = std::max(below, nodes[other].depth);
    }
    if (own + below > kDeepestCode)
      refuse(file_, "its code is nested too deeply: {} levels of classes, functions and brackets",
             own + below);
    for (auto at = begin; at != open.end(); ++at) nodes[*at].depth = own + below;
    open.erase(begin, open.end());
  };
  for (std::size_t start = 0; start < nodes.size(); ++start) {
    if (nodes[start].number == 0) enter(start);
    while (!path.empty()) {
      const std::size_t place = path.back();
      Node& node = nodes[place];
      if (node.taken < node.next.size()) {
        const std::size_t other = node.next[node.taken++];
        if (nodes[other].number == 0)
          enter(other);
        else if (nodes[other].depth == 0)
          node.least = std::min(node.least, nodes[other].number);
        continue;
      }
      path.pop_back();
      if (!path.empty()) nodes[path.back()].least = std::min(nodes[path.back()].least, node.least);
      if (node.least == node.number) close_circle(place);
    }
  }
}

ScriptCode::ClassKind ScriptCode::kind_of(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? ClassKind::none : definitions_[found->second].kind;
}

bool ScriptCode::has_value(const std::string& name, const PickleValue& value) const {
  if (kind_of(name) != ClassKind::enumeration) return false;
  const std::set<std::string>& literals = definitions_[by_name_.find(name)->second].literals;
  if (value.kind == PickleValue::Kind::number)
    return literals.contains(std::to_string(value.number));
  const std::string text(value.text);
  if (text.find_first_of("\"'\\") != text.npos) return false;  // would need escapes
  return literals.contains('"' + text + '"') || literals.contains("'" + text + "'");
}

using ValueKind = PickleValue::Kind;

constexpr std::size_t kMaxCode = std::size_t{32} << 20;  // [bytes] of all files
// A value's levels; a module inside another one has two. Then values, each counted as often as a
// walk from the root meets it, as LibTorch does with modules.
constexpr std::uint64_t kDeepest = 256, kMostMet = std::uint64_t{1} << 24;
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  // of a tensor: no overflow follows
// LibTorch reads a storage again for each tensor on it.
constexpr std::uint64_t kMostCopies = 4;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_key(ValueKind kind) {
  return kind == ValueKind::text || kind == ValueKind::number || kind == ValueKind::truth ||
         kind == ValueKind::real;
}

class Walk {
 public:
  Walk(std::span<const std::byte> bytes, const std::string& path)
      : file_(path, Holds::script),
        archive_(bytes, file_),
        root_(root_of(archive_, file_)),
        code_(file_),
        bytes_left_(kMostCopies * bytes.size()) {}

  std::string checked() {
    require_byte_order(archive_, root_, file_);
    require_program();
    keep_version();
    keep_code();
    keep_values("data", ValueKind::object);
    keep_values("constants", ValueKind::tuple);
    ZipWriter out;
    for (const ZipArchive::Record* const record : kept_) out.add(record->name, archive_, *record);
    return std::move(out).finish();
  }

 private:
  const ZipArchive::Record& find(const std::string& name) const {
    const ZipArchive::Record* const record = archive_.find(root_ + name);
    if (record == nullptr) refuse(file_, "the archive has no record {}", printable(name));
    if (record->compressed) refuse(file_, "its record {} is compressed", printable(name));
    return *record;
  }

  /// torch.save writes the same kind of archive, of tensors without a program.
  void require_program() const {
    if (archive_.find(root_ + "data.pkl") == nullptr ||
        archive_.find(root_ + "constants.pkl") != nullptr)
      return;
    refuse(file_, "it has weights alone, such as a state dict, and no network that computes");
  }

  void keep_version() {
    const bool hidden = archive_.find(root_ + ".data/version") != nullptr;
    const ZipArchive::Record& record = find(hidden ? ".data/version" : "version");
    const std::vector<std::byte> bytes = archive_.read(record);
    std::string_view digits = text_of(bytes);
    if (digits.ends_with('\n')) digits.remove_suffix(1);
    constexpr std::size_t kLongest = 4;
    const bool fits = !digits.empty() && digits.size() <= kLongest &&
                      digits.find_first_not_of("0123456789") == digits.npos;
    if (!fits) refuse(file_, "its version is no number");
    kept_.insert(&record);
  }

  void keep_code() {
    const std::string folder = root_ + "code/";
    constexpr std::string_view kEnd = ".py";
    std::size_t left = kMaxCode;
    for (const ZipArchive::Record& record : archive_.records()) {
      if (!record.name.starts_with(folder) || !record.name.ends_with(kEnd)) continue;
      const std::string_view below = std::string_view(record.name).substr(folder.size());
      std::string module(below.substr(0, below.size() - std::min(below.size(), kEnd.size())));
      if (module.find('.') != module.npos) continue;  // LibTorch never looks for it
      std::ranges::replace(module, '/', '.');
      if (record.bytes > left) refuse(file_, "its code has more than {} MiB", kMaxCode >> 20);
      left -= record.bytes;
      const std::vector<std::byte> bytes = archive_.read(record);
      code_.read(module, text_of(bytes));
      kept_.insert(&record);
    }
    code_.check_names();
  }

  void keep_values(const std::string& name, ValueKind root) {
    const ZipArchive::Record& record = find(name + ".pkl");
    const std::vector<std::byte> bytes = archive_.read(record);
    const Pickle pickle(bytes, file_);
    if (pickle.root().kind != root)
      refuse(file_, "its record {}.pkl is {} instead of {}", name, kind_name(pickle.root().kind),
             kind_name(root));
    for (const PickleValue& value : pickle.values()) check(pickle, value, root);
    check_nesting(pickle);
    kept_.insert(&record);
    for (const PickleValue& value : pickle.values())
      if (value.kind == ValueKind::storage) keep_storage(name, value);
  }

  void check(const Pickle& pickle, const PickleValue& value, ValueKind root) const {
    const bool is_class = value.kind == ValueKind::global &&
                          value.global == static_cast<std::uint8_t>(Global::script_class);
    if (value.kind == ValueKind::object || is_class) {
      const std::string name = class_name(value);
      const auto kind = code_.kind_of(name);
      if (root != ValueKind::object) refuse(file_, "it has an object as a constant");
      if (kind == ScriptCode::ClassKind::none ||
          (!is_class && kind != ScriptCode::ClassKind::with_objects))
        refuse(file_, "it has an object of {}, which is no class of its code", printable(name));
    } else if (value.kind == ValueKind::enumerator) {
      if (!code_.has_value(class_name(value), pickle.at(value.items[0])))
        refuse(file_, "it has a value of {}, which is no enumeration of its code with that value",
               printable(class_name(value)));
    } else if (value.kind == ValueKind::dict) {
      for (std::size_t i = 0; i < value.items.size(); i += 2)
        if (const ValueKind key = pickle.at(value.items[i]).kind; !is_key(key))
          refuse(file_, "it has a dict with {} as a key", kind_name(key));
    } else if (value.kind == ValueKind::tensor) {
      check_tensor(pickle, value);
    }
  }

  void check_tensor(const Pickle& pickle, const PickleValue& value) const {
    const PickleValue& storage = pickle.at(value.items[0]);
    const ElementPlaces places = places_of(pickle, value);
    std::int64_t elements = 1;
    bool fits = places.offset <= storage.number && places.lies_in(storage.number);
    for (std::size_t i = 0; i < places.sizes.size(); ++i) {
      const std::int64_t side = std::max<std::int64_t>(1, places.sizes[i]);
      fits = fits && side <= kMostElements / elements && places.strides[i] <= kMostElements;
      if (fits) elements *= side;
    }
    if (!fits)
      refuse(file_, "it has a tensor that is not in its storage {} of {} elements",
             printable(storage.text), storage.number);
  }

  void keep_storage(const std::string& folder, const PickleValue& storage) {
    if (storage.number == 0) return;  // LibTorch does not look for it
    const std::string name = fmt::format("{}/{}", folder, storage.text);
    const ZipArchive::Record& record = find(name);
    const std::size_t size = element_bytes(storage.type);
    if (std::cmp_not_equal(record.bytes / size, storage.number))
      refuse(file_, "its record {} has {} bytes instead of {} {} elements", printable(name),
             record.bytes, storage.number, element_name(storage.type));
    if (record.bytes > bytes_left_)
      refuse(file_, "its tensors have more than {} times its bytes", kMostCopies);
    bytes_left_ -= record.bytes;
    if (!kept_.insert(&record).second) return;
    (void)archive_.read(record);  // for its checksum
  }

  /// No value contains itself, is too deep, or is met too often.
  void check_nesting(const Pickle& pickle) const {
    struct Node {
      std::size_t taken = 0;  // of its items
      std::uint64_t depth = 0, met = 0;
      bool is_open = false;
    };
    std::vector<Node> nodes(pickle.values().size());
    std::vector<ValueId> path;
    const auto enter = [&](ValueId id) {
      nodes[id] = {.taken = 0, .depth = 1, .met = 1, .is_open = true};
      path.push_back(id);
    };
    const auto add = [&](Node& node, const Node& item) {
      node.depth = std::max(node.depth, item.depth + 1);
      node.met += item.met;
      if (node.depth > kDeepest)
        refuse(file_, "it has more than {} values in each other", kDeepest);
      if (node.met > kMostMet) refuse(file_, "it has the same values too often");
    };
    for (ValueId start = 0; start < nodes.size(); ++start) {
      if (nodes[start].depth == 0) enter(start);
      while (!path.empty()) {
        const ValueId id = path.back();
        Node& node = nodes[id];
        const std::vector<ValueId>& items = pickle.at(id).items;
        if (node.taken == items.size()) {
          node.is_open = false;
          path.pop_back();
          continue;
        }
        const Node& item = nodes[items[node.taken]];
        if (item.is_open) refuse(file_, "it has a value that contains itself");
        if (item.depth == 0) {
          if (path.size() > kDeepest)
            refuse(file_, "it has more than {} values in each other", kDeepest);
          enter(items[node.taken]);
        } else {
          add(node, item);
          ++node.taken;
        }
      }
    }
  }

  const ForeignFile file_;
  const ZipArchive archive_;
  const std::string root_;
  ScriptCode code_;
  std::uint64_t bytes_left_;
  std::set<const ZipArchive::Record*> kept_;  // in the order of their names
};

}  // namespace

std::string checked_script(std::span<const std::byte> bytes, const std::string& path) {
  return Walk(bytes, path).checked();
}

}  // namespace eqt::weights
