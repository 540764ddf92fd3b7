// SPDX-License-Identifier: Apache-2.0
// A text as numbers of tokens, as BERT reads it, and the tokens that a network knows: a file
// vocab.txt as BERT's models have it.
//
// Source   J. Devlin et al., arXiv:1810.04805, and their code's BasicTokenizer and
//          WordpieceTokenizer; Y. Wu et al., arXiv:1609.08144, section 4.1
// Format   of vocab.txt: a token a line, whose number is that of the line, from 0. A token that
//          continues a word begins with "##".
// Steps    characters that are not printable are left out, white space becomes spaces, spaces are
//          put around Chinese characters; with lower case: canonical decomposition, accents (Mn)
//          left out, small letters; then words at spaces, and each punctuation mark a word of its
//          own; then the longest token that begins the word, the longest that continues it, and so
//          on. A word of more than 100 characters, or with a rest that no token matches, is [UNK].
// Differs  Special tokens have no spelling: "[SEP]" in a text is three words. Bytes that are not
//          UTF-8 are left out. Otherwise tokens are those of PyPI's tokenizers 0.23, but for 624
//          characters whose categories Unicode has changed or added since the version that it has
//          tables of; ours are utf8proc's (tests/data/golden/compare_word_piece.py).

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace eqt::data {

using TokenId = std::int32_t;

class Vocabulary {
 public:
  /// @param file the bytes of vocab.txt; space at the end of a line is no part of the token, and of
  ///   equal tokens the last counts, as for PyPI's tokenizers
  /// @param path for messages
  /// @throws Error{data} for what is no such file: empty, not UTF-8, without the special tokens
  Vocabulary(std::string file, const std::string& path);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::size_t size() const { return lines_; }        // [tokens], one more than the largest number
  const std::string& file() const { return file_; }  // its bytes
  TokenId padding() const { return special_.padding; }  // [PAD]
  TokenId unknown() const { return special_.unknown; }  // [UNK]
  TokenId begin() const { return special_.begin; }      // [CLS]
  TokenId end() const { return special_.end; }          // [SEP]

  /// The number of a token that begins a word; -1: none is called so.
  TokenId find_first(std::string_view token) const { return find(first_, token); }
  /// The number of the token that continues a word, without its "##"; -1: none is called so.
  TokenId find_next(std::string_view token) const { return find(next_, token); }
  std::size_t longest_bytes() const { return longest_bytes_; }  // of any token
  /// Returns all tokens by number; of equal ones the last, and nothing for those before it.
  std::vector<std::string> tokens() const;

 private:
  using Numbers = std::unordered_map<std::string_view, TokenId>;
  struct Special {
    TokenId padding = -1, unknown = -1, begin = -1, end = -1;
  };

  static TokenId find(const Numbers& numbers, std::string_view token) {
    const auto found = numbers.find(token);
    return found == numbers.end() ? -1 : found->second;
  }
  void add_lines(const std::string& path);
  TokenId special(std::string_view token, const std::string& path) const;

  const std::string file_;  // what the keys refer to
  std::size_t lines_ = 0;
  std::size_t longest_bytes_ = 0;
  Numbers first_;  // all tokens
  Numbers next_;   // those that continue a word
  Special special_;
};

/// Reads a file vocab.txt. @throws Error{data} as the constructor, and for files that cannot be
/// read or have more than 64 MiB
std::string read_vocabulary_file(const std::filesystem::path& path);

class WordPiece {
 public:
  WordPiece(std::shared_ptr<const Vocabulary> vocabulary, bool lower_case)
      : vocabulary_(std::move(vocabulary)), lower_case_(lower_case) {}

  const Vocabulary& vocabulary() const { return *vocabulary_; }

  /// The tokens of the text, without [CLS] and [SEP]; the first `most` of them. Thread-safe.
  std::vector<TokenId> tokens(std::string_view text, std::size_t most) const;

  /// The text as its words are read: cleaned, perhaps in lower case, with spaces around Chinese
  /// characters.
  std::u32string normalized(std::string_view text) const;

 private:
  void add_word(std::u32string_view word, std::vector<TokenId>& out) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  bool lower_case_;
};

/// The words of a normalized text, punctuation marks among them. Refer to the text.
std::vector<std::u32string_view> words_of(std::u32string_view normalized);

}  // namespace eqt::data
