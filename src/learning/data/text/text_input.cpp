// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_input.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/error.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kAround = 2;  // [tokens] [CLS] and [SEP]

ArraySpec spec_of(std::string_view name, std::size_t longest, std::size_t bound) {
  return {.name = std::string(name),
          .type = ElementType::int64,
          .shape = {-1},
          .longest = static_cast<std::int64_t>(longest),
          .bound = static_cast<std::int64_t>(bound)};
}

}  // namespace

TextInput::TextInput(std::string vocabulary, const TextOptions& options)
    : options_(options),
      words_(std::make_shared<const Vocabulary>(std::move(vocabulary), options.vocabulary),
             options.lower_case) {
  EQT_CHECK(options.max_length > kAround, "texts of at most {} tokens", options.max_length);
}

TextInput::TextInput(const TextOptions& options)
    : TextInput(read_vocabulary_file(options.vocabulary), options) {}

std::vector<ArraySpec> TextInput::specs() const {
  return {spec_of(kTokens, options_.max_length, vocabulary().size()),
          spec_of(kMask, options_.max_length, 2)};
}

std::vector<TokenId> TextInput::words(std::string_view text) const {
  return words_.tokens(text, SIZE_MAX);
}

std::vector<TokenId> TextInput::tokens(std::string_view text) const {
  std::vector<TokenId> all = words_.tokens(text, options_.max_length - kAround);
  all.insert(all.begin(), vocabulary().begin());
  all.push_back(vocabulary().end());
  return all;
}

void TextInput::write(std::span<const std::span<const TokenId>> texts, Batch& out) const {
  std::size_t length = 0;
  for (const auto& one : texts) length = std::max(length, one.size());
  const std::vector<ArraySpec> arrays = specs();
  const std::int64_t shape[] = {static_cast<std::int64_t>(length)};
  out.inputs.resize(arrays.size());
  const auto tokens = out.inputs[0].prepare<std::int64_t>(arrays[0], texts.size(), shape);
  const auto mask = out.inputs[1].prepare<std::int64_t>(arrays[1], texts.size(), shape);
  std::ranges::fill(tokens, vocabulary().padding());
  std::ranges::fill(mask, 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::ranges::copy(texts[i], tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::ranges::fill(mask.subspan(i * length, texts[i].size()), 1);
  }
}

}  // namespace eqt::data
