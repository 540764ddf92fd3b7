// SPDX-License-Identifier: Apache-2.0
// Tokens of awkward texts against those of PyPI's tokenizers; make_word_piece.py made them.

#include "data/text/word_piece.hpp"

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::data;

TEST_CASE("tokens are those of PyPI's tokenizers", "[word_piece]") {
  std::ifstream file(EQT_SOURCE_DIR "/tests/data/golden/word_piece.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::string lines;
  for (const auto& token : golden.at("vocabulary")) lines += token.get<std::string>() + "\n";
  const auto vocabulary = std::make_shared<const Vocabulary>(lines, "word_piece.json");
  const WordPiece lower(vocabulary, true), cased(vocabulary, false);
  REQUIRE(golden.at("cases").size() > 100);
  for (const auto& one : golden.at("cases")) {
    const std::string text = one.at("text");
    INFO(text);
    CHECK(lower.tokens(text, SIZE_MAX) == one.at("lower").get<std::vector<TokenId>>());
    CHECK(cased.tokens(text, SIZE_MAX) == one.at("cased").get<std::vector<TokenId>>());
  }
}
