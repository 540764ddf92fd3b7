// SPDX-License-Identifier: Apache-2.0
#include "data/token_stream.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/error.hpp"
#include "data/text/rows.hpp"

namespace eqt::data {

TokenStream::TokenStream(std::shared_ptr<const TextInput> input, const std::filesystem::path& file,
                         std::size_t most)
    : input_(std::move(input)), length_(input_->options().max_length) {
  read_lines(file, [&](std::string_view line) {
    if (most > 0 && tokens_.size() > most * length_) return;
    const std::vector<TokenId> found = input_->words(line);
    if (found.empty()) return;
    tokens_.insert(tokens_.end(), found.begin(), found.end());
    tokens_.push_back(input_->vocabulary().end());
  });
  if (tokens_.size() <= length_)
    fail(Kind::data,
         "expected at least {} tokens in {}, one sample and what follows it, found {}; lower "
         "data.max_length or take a longer text",
         length_ + 1, file.string(), tokens_.size());
  samples_ = (tokens_.size() - 1) / length_;
  if (most > 0) samples_ = std::min(samples_, most);
}

std::vector<ArraySpec> TokenStream::inputs_of(const TextInput& input) {
  return {input.specs().front()};
}

ArraySpec TokenStream::target_of(const TextInput& input) {
  ArraySpec spec = input.specs().front();
  spec.name = "next";
  return spec;
}

std::vector<ArraySpec> TokenStream::inputs() const { return inputs_of(*input_); }
std::optional<ArraySpec> TokenStream::target() const { return target_of(*input_); }

void TokenStream::read(std::span<const std::size_t> indices, const std::optional<AugmentKey>&,
                       Batch& out) const {
  const std::array shape = {static_cast<std::int64_t>(length_)};
  out.inputs.resize(1);
  const auto tokens = out.inputs[0].prepare<std::int64_t>(inputs().front(), indices.size(), shape);
  const auto next = out.targets.prepare<std::int64_t>(target_of(*input_), indices.size(), shape);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t begin = indices[i] * length_;
    EQT_CHECK(indices[i] < samples_, "sample {} of {}", indices[i], samples_);
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), length_,
                tokens.begin() + static_cast<std::ptrdiff_t>(i * length_));
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin + 1), length_,
                next.begin() + static_cast<std::ptrdiff_t>(i * length_));
  }
}

}  // namespace eqt::data
