// SPDX-License-Identifier: Apache-2.0
#include "data/text/vocabulary.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "data/text/unicode.hpp"

namespace eqt::data {
namespace {

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;
constexpr std::string_view kContinues = "##";
constexpr std::string_view kRemedy = "take the vocab.txt of the model that is trained";

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
         path, kRemedy);
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
           lines_ + 1, path, kRemedy);
    const auto id = static_cast<TokenId>(lines_);
    first_[token] = id;
    if (token.size() > kContinues.size() && token.starts_with(kContinues))
      next_[token.substr(kContinues.size())] = id;
    longest_bytes_ = std::max(longest_bytes_, token.size());
    at = end + 1;
  }
}

TokenId Vocabulary::special(std::string_view token, const std::string& path) const {
  const TokenId id = find_first(token);
  if (id < 0)
    fail(Kind::data, "expected the token {} in the vocabulary {}, found none among its {}; {}",
         token, path, lines_, kRemedy);
  return id;
}

std::string read_vocabulary_file(const std::filesystem::path& path) {
  return read_whole_file(path, {.what = "a vocabulary",
                                .max_bytes = kMaxBytes,
                                .remedy = "set data.vocabulary to a vocab.txt"});
}

}  // namespace eqt::data
