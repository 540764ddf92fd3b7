// SPDX-License-Identifier: Apache-2.0
// Labelled texts in memory as tokens, four bytes each.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text_input.hpp"

namespace eqt::data {

class TextSet final : public Dataset {
 public:
  explicit TextSet(std::shared_ptr<const TextInput> input) : input_(std::move(input)) {}

  void add(std::string_view text, int label);
  /// Every label becomes the class `classes[label]`.
  void rename_labels(std::span<const int> classes);
  void set_classes(int count) { classes_ = count; }

  std::size_t size() const override { return labels_.size(); }
  std::vector<ArraySpec> inputs() const override { return input_->specs(); }
  std::optional<ArraySpec> target() const override { return class_spec(classes_); }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override { return labels_.at(sample); }
  std::size_t length(std::size_t sample) const override { return tokens_of(sample).size(); }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;

 private:
  std::span<const TokenId> tokens_of(std::size_t sample) const {
    const std::size_t begin = sample == 0 ? 0 : ends_[sample - 1];
    return std::span(tokens_).subspan(begin, ends_.at(sample) - begin);
  }

  std::shared_ptr<const TextInput> input_;
  std::vector<TokenId> tokens_;    // of all texts
  std::vector<std::size_t> ends_;  // (n) of each text's
  std::vector<int> labels_;        // (n)
  int classes_ = 0;
};

}  // namespace eqt::data
