// SPDX-License-Identifier: Apache-2.0
// Texts as the arrays that networks of texts take: "tokens" (n, length) and "mask" (n, length),
// both int64. The mask is 1 for tokens and 0 for what fills up the shorter texts of a batch.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/word_piece.hpp"

namespace eqt::data {

inline constexpr std::string_view kTokens = "tokens", kMask = "mask";
/// Names targets that are the tokens behind those of the input.
inline constexpr std::string_view kNext = "next";

class TextInput {
 public:
  /// @throws Error{data} for a vocabulary that is none
  explicit TextInput(const TextOptions& options);
  /// @param vocabulary the bytes of a vocab.txt; options.vocabulary is for messages alone
  TextInput(std::string vocabulary, const TextOptions& options);

  const Vocabulary& vocabulary() const { return words_.vocabulary(); }
  const TextOptions& options() const { return options_; }
  std::vector<ArraySpec> specs() const;

  /// The tokens of the text, all of them.
  std::vector<TokenId> words(std::string_view text) const;
  /// [CLS], the tokens of the text as far as they fit, [SEP].
  std::vector<TokenId> tokens(std::string_view text) const;
  /// Tokens as inputs of a batch, each text filled up to the longest one. Reuses the memory of
  /// `out`; leaves its targets.
  void write(std::span<const std::span<const TokenId>> texts, Batch& out) const;

 private:
  TextOptions options_;
  WordPiece words_;
};

}  // namespace eqt::data
