// SPDX-License-Identifier: Apache-2.0
#include "fuzz/text_readers.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "data/text/rows.hpp"
#include "data/text/word_piece.hpp"
#include "model/encoder_shape.hpp"

namespace eqt::fuzz {
namespace {

using Bytes = std::span<const std::uint8_t>;

void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "reader_fuzz: expected {}\n", what);
  std::abort();
}

std::string text_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// A file in memory with these bytes, the same one each time.
std::string path_of(Bytes bytes) {
  static const int file = memfd_create("eqt-fuzz-texts", MFD_CLOEXEC);
  require(file >= 0 && ftruncate(file, 0) == 0 &&
              pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "a file in memory");
  return fmt::format("/proc/self/fd/{}", file);
}

}  // namespace

void read_texts(Bytes bytes) {
  if (bytes.empty()) return;
  constexpr data::RowFormat kFormats[] = {data::RowFormat::csv, data::RowFormat::tsv,
                                          data::RowFormat::json_lines};
  std::uint64_t line = 0;
  std::size_t held = 0;
  data::read_rows(path_of(bytes.subspan(1)), kFormats[bytes[0] % 3], [&](data::Row&& row) {
    require(row.line > line, "rows in the order of their lines");
    line = row.line;
    held += row.text.size();
  });
  require(held <= bytes.size(), "no more text than the file holds");
}

void read_vocabulary(Bytes bytes) {
  const std::string all = text_of(bytes);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const auto vocabulary = std::make_shared<const data::Vocabulary>(all.substr(0, end), "fuzz");
  const std::string sample = all.substr(std::min(end + 1, all.size()));
  for (const bool lower_case : {true, false}) {
    const data::WordPiece words(vocabulary, lower_case);
    const auto tokens = words.tokens(sample, SIZE_MAX);
    for (const data::TokenId token : tokens)
      require(token >= 0 && static_cast<std::size_t>(token) < vocabulary->size(),
              "tokens of the vocabulary");
    const auto first = words.tokens(sample, 3);
    require(first.size() == std::min<std::size_t>(tokens.size(), 3) &&
                std::equal(first.begin(), first.end(), tokens.begin()),
            "the first tokens");
  }
}

void read_encoder(Bytes bytes) {
  (void)model::parse_tokenizer_config(text_of(bytes));
  const model::EncoderShape shape = model::parse_encoder_config(text_of(bytes), "fuzz");
  require(shape.heads > 0 && shape.hidden % shape.heads == 0, "heads that divide the width");
}

}  // namespace eqt::fuzz
