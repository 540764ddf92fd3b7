// SPDX-License-Identifier: Apache-2.0
// A text as numbers of tokens, as BERT reads it.
//
// Source   J. Devlin et al., arXiv:1810.04805, and their code's BasicTokenizer and
//          WordpieceTokenizer; Y. Wu et al., arXiv:1609.08144, section 4.1
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
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/vocabulary.hpp"

namespace eqt::data {

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
