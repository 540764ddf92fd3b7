// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_set.hpp"

#include <algorithm>

namespace eqt::data {

void TextSet::add(std::string_view text, int label) {
  const std::vector<TokenId> tokens = input_->tokens(text);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
  labels_.push_back(label);
}

void TextSet::rename_labels(std::span<const int> classes) {
  for (int& label : labels_) label = classes[static_cast<std::size_t>(label)];
}

void TextSet::read(std::span<const std::size_t> indices, const std::optional<AugmentKey>&,
                   Batch& out) const {
  std::vector<std::span<const TokenId>> texts;
  for (const std::size_t sample : indices) texts.push_back(tokens_of(sample));
  input_->write(texts, out);
  const auto labels = out.targets.prepare<std::int64_t>(class_spec(classes_), indices.size());
  std::ranges::transform(indices, labels.begin(),
                         [this](std::size_t sample) { return labels_.at(sample); });
}

}  // namespace eqt::data
