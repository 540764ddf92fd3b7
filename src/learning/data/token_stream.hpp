// SPDX-License-Identifier: Apache-2.0
// A text as a stream of tokens, for language models. It is cut into samples of equal length; the
// target at each place is the token that follows.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text_input.hpp"

namespace eqt::data {

class TokenStream final : public Dataset {
 public:
  /// Each line of the file and a [SEP] behind it; empty lines are skipped. Tokens behind the last
  /// whole sample are left out.
  /// @param most samples; 0: all
  /// @throws Error{data}: the file has less than one sample, or cannot be read
  TokenStream(std::shared_ptr<const TextInput> input, const std::filesystem::path& file,
              std::size_t most);

  std::size_t size() const override { return samples_; }
  std::vector<ArraySpec> inputs() const override;
  std::optional<ArraySpec> target() const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;

  /// The arrays of any stream. @param input how its text is read
  static std::vector<ArraySpec> inputs_of(const TextInput& input);
  static ArraySpec target_of(const TextInput& input);

 private:
  std::shared_ptr<const TextInput> input_;
  std::size_t length_;           // [tokens] of a sample
  std::vector<TokenId> tokens_;  // one more than samples need
  std::size_t samples_ = 0;
};

}  // namespace eqt::data
