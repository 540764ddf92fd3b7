// SPDX-License-Identifier: Apache-2.0
#include "data/text/word_piece.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "data/text/unicode.hpp"

namespace eqt::data {
namespace {

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;
constexpr std::string_view kContinues = "##";
constexpr std::string_view kVocabularyRemedy = "take the vocab.txt of the model that is trained";

/// Without white space at its end.
std::string_view trimmed(std::string_view line) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  return line;
}

}  // namespace

Vocabulary::Vocabulary(std::string file, const std::string& path) : file_(std::move(file)) {
  add_lines(path);
  if (lines_ == 0)
    fail(Kind::data, "expected a vocabulary, one token a line, in {}, found an empty file; {}",
         path, kVocabularyRemedy);
  special_ = {.padding = special("[PAD]", path),
              .unknown = special("[UNK]", path),
              .begin = special("[CLS]", path),
              .end = special("[SEP]", path)};
}

void Vocabulary::add_lines(const std::string& path) {
  const std::string_view all = file_;
  for (std::size_t at = 0; at < all.size(); ++lines_) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view token = trimmed(all.substr(at, end - at));
    if (!is_utf8(token))
      fail(Kind::data, "expected UTF-8 in line {} of the vocabulary {}, found other bytes; {}",
           lines_ + 1, path, kVocabularyRemedy);
    const auto id = static_cast<TokenId>(lines_);
    first_[token] = id;
    if (token.size() > kContinues.size() && token.starts_with(kContinues))
      next_[token.substr(kContinues.size())] = id;
    longest_bytes_ = std::max(longest_bytes_, token.size());
    at = end + 1;
  }
}

std::vector<std::string> Vocabulary::tokens() const {
  std::vector<std::string> all(size());
  for (const auto& [token, id] : first_) all[static_cast<std::size_t>(id)] = token;
  return all;
}

TokenId Vocabulary::special(std::string_view token, const std::string& path) const {
  const TokenId id = find_first(token);
  if (id < 0)
    fail(Kind::data, "expected the token {} in the vocabulary {}, found none among its {}; {}",
         token, path, lines_, kVocabularyRemedy);
  return id;
}

std::string read_vocabulary_file(const std::filesystem::path& path) {
  return read_whole_file(path, {.what = "a vocabulary",
                                .max_bytes = kMaxBytes,
                                .remedy = "set data.vocabulary to a vocab.txt"});
}

namespace {

constexpr std::size_t kLongestWord = 100;  // [characters]
constexpr char32_t kReplacement = 0xFFFD;  // what decoders write in place of bad bytes

/// Line ends and tabs are white space here, although their category is control.
bool is_left_out(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0 || c == kReplacement || is_other(c);
}

std::u32string cleaned(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : decode_utf8(text)) {
    if (is_left_out(c)) continue;
    if (is_white_space(c)) {
      out.push_back(' ');
    } else if (is_chinese(c)) {
      out.append({U' ', c, U' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::u32string without_accents_in_lower_case(const std::u32string& text) {
  std::u32string out = decomposed(text);
  std::erase_if(out, is_nonspacing_mark);
  std::ranges::transform(out, out.begin(), [](char32_t c) { return lower_case(c); });
  return out;
}

}  // namespace

std::u32string WordPiece::normalized(std::string_view text) const {
  std::u32string clean = cleaned(text);
  return lower_case_ ? without_accents_in_lower_case(clean) : clean;
}

std::vector<std::u32string_view> words_of(std::u32string_view normalized) {
  std::vector<std::u32string_view> words;
  for (std::size_t at = 0; at < normalized.size();) {
    std::size_t end = at + 1;
    if (normalized[at] != ' ' && !is_punctuation(normalized[at]))
      while (end < normalized.size() && normalized[end] != ' ' && !is_punctuation(normalized[end]))
        ++end;
    if (normalized[at] != ' ') words.push_back(normalized.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<TokenId> WordPiece::tokens(std::string_view text, std::size_t most) const {
  std::vector<TokenId> out;
  const std::u32string all = normalized(text);
  for (const std::u32string_view word : words_of(all)) {
    if (out.size() >= most) break;
    add_word(word, out);
  }
  if (out.size() > most) out.resize(most);
  return out;
}

void WordPiece::add_word(std::u32string_view word, std::vector<TokenId>& out) const {
  if (word.size() > kLongestWord) return out.push_back(vocabulary_->unknown());
  std::string bytes;
  std::vector<std::size_t> ends;  // [bytes] of each character
  for (const char32_t c : word) {
    append_utf8(c, bytes);
    ends.push_back(bytes.size());
  }
  const std::string_view all = bytes;
  const std::size_t before = out.size();
  std::size_t done = 0;  // [characters] that tokens match
  while (done < ends.size()) {
    const std::size_t begin = done == 0 ? 0 : ends[done - 1];
    TokenId found = -1;
    std::size_t end = ends.size();
    for (; end > done && found < 0; --end) {
      const std::size_t length = ends[end - 1] - begin;
      if (length > vocabulary_->longest_bytes()) continue;
      const std::string_view part = all.substr(begin, length);
      found = done == 0 ? vocabulary_->find_first(part) : vocabulary_->find_next(part);
    }
    if (found < 0) {
      out.resize(before);
      return out.push_back(vocabulary_->unknown());
    }
    out.push_back(found);
    done = end + 1;
  }
}

}  // namespace eqt::data
