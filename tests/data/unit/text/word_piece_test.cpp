// SPDX-License-Identifier: Apache-2.0
// Beside data/golden/word_piece_test.cpp: the steps one by one.

#include "data/text/word_piece.hpp"

#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::data;

namespace {

constexpr TokenId kUnknown = 1;

WordPiece tokenizer(const std::string& tokens, bool lower_case = true) {
  return {std::make_shared<const Vocabulary>("[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + tokens, "v.txt"),
          lower_case};
}

std::vector<TokenId> tokens(const WordPiece& words, const std::string& text,
                            std::size_t most = SIZE_MAX) {
  return words.tokens(text, most);
}

}  // namespace

TEST_CASE("the longest token comes first", "[word_piece]") {
  const WordPiece words = tokenizer("un\n##aff\n##able\n##a\n##ffable\n");  // 4 ...
  CHECK(tokens(words, "unaffable") == std::vector<TokenId>{4, 5, 6});
  CHECK(tokens(words, "una") == std::vector<TokenId>{4, 7});
  // A greedy match may fail where another one would not.
  CHECK(tokens(tokenizer("ab\n##c\na\n##bcd\n"), "abcd") == std::vector<TokenId>{kUnknown});
}

TEST_CASE("a word without tokens is one unknown token", "[word_piece]") {
  const WordPiece words = tokenizer("a\n##a\n");
  CHECK(tokens(words, "aab aa") == std::vector<TokenId>{kUnknown, 4, 5});
  CHECK(tokens(words, std::string(100, 'a')).size() == 100);
  CHECK(tokens(words, std::string(101, 'a')) == std::vector<TokenId>{kUnknown});
  std::string long_word;
  for (int i = 0; i < 100; ++i) long_word += "\u0436";  // two bytes each: characters are counted
  CHECK(tokens(tokenizer("\u0436\n##\u0436\n"), long_word).size() == 100);
}

TEST_CASE("special tokens have no spelling", "[word_piece]") {
  const WordPiece words = tokenizer("[\n]\nsep\n");
  CHECK(tokens(words, "[SEP]") == std::vector<TokenId>{4, 6, 5});
}

TEST_CASE("texts are cut at the number of tokens", "[word_piece]") {
  const WordPiece words = tokenizer("a\n##a\n");
  CHECK(tokens(words, "aaa aaa", 4) == std::vector<TokenId>{4, 5, 5, 4});
  CHECK(tokens(words, "aaa", 0).empty());
}

TEST_CASE("texts are cleaned", "[word_piece]") {
  const WordPiece lower = tokenizer(""), cased = tokenizer("", false);
  CHECK(lower.normalized("\u00C9t\u00E9\tA\u200Dc\u00A0d") == U"ete ac d");
  CHECK(lower.normalized({"a\0b", 3}) == U"ab");
  CHECK(cased.normalized("\u00C9t\u00E9\tA\u200Dc\u00A0d") == U"\u00C9t\u00E9 Ac d");
  CHECK(lower.normalized("a\u4E2Db") == U"a \u4E2D b");
  CHECK(lower.normalized("a\xFF"
                         "b\xE2\x82") == U"ab");
  const std::u32string text = U"ab,c  d!? e";
  CHECK(words_of(text) ==
        std::vector<std::u32string_view>{U"ab", U",", U"c", U"d", U"!", U"?", U"e"});
}
