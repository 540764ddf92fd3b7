// SPDX-License-Identifier: Apache-2.0
// The C++ side of compare_word_piece.py.
//
// word_piece_tool VOCABULARY LOWER     reads texts from standard input, each with its length before
//                                      it (4 bytes, little-endian); writes a line for each: the
//                                      words in UTF-8 with spaces between them, a tab, the tokens'
//                                      numbers with spaces between them

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "core/error.hpp"
#include "data/text/unicode.hpp"
#include "data/text/word_piece.hpp"

int main(int argc, char** argv) try {
  using namespace eqt::data;
  if (argc != 3) eqt::fail(eqt::Kind::usage, "expected 2 arguments, found {}", argc - 1);
  const std::string path = argv[1];
  const WordPiece words(std::make_shared<const Vocabulary>(read_vocabulary_file(path), path),
                        std::string(argv[2]) == "1");
  std::uint32_t length = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    std::string text(length, '\0');
    if (std::fread(text.data(), 1, length, stdin) != length)
      eqt::fail(eqt::Kind::usage, "expected a text of {} bytes, found the end", length);
    const std::u32string normalized = words.normalized(text);
    std::string line;
    for (const std::u32string_view word : words_of(normalized)) {
      if (!line.empty()) line += ' ';
      for (const char32_t character : word) append_utf8(character, line);
    }
    fmt::print("{}\t{}\n", line, fmt::join(words.tokens(text, SIZE_MAX), " "));
  }
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
