// SPDX-License-Identifier: Apache-2.0
#include "weights/script_code.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace eqt::weights {
namespace {

// LibTorch 1.13 overflows a stack of 8 MiB from about 1500 functions on of which each calls the
// next, and from 3000 brackets, indentations or classes on; blank lines from some 10000 on.
constexpr std::size_t kDeepest = 1200, kOfDefinition = 4, kBlankLines = 1000, kLongestName = 4096;

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

}  // namespace

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
    if (nesting > kDeepest) refuse("is nested too deeply");
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
    if (own + below > kDeepest)
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

}  // namespace eqt::weights
