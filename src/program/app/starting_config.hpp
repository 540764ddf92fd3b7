// SPDX-License-Identifier: Apache-2.0
// The config that `init` writes: rules by which its values are chosen, and its text with comments.
// docs/own_data.md has the rules as a table.

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::app {

/// Keys with their reasons, in the order in which they are set.
class CommentedConfig {
 public:
  /// Keys of a section must follow one another. @param key at most one dot deep @param why one line
  void set(std::string_view key, nlohmann::json value, std::string why = {});
  /// JSON with a comment behind each key that has a reason. @param about the first line
  std::string text(std::string_view about) const;

 private:
  struct Entry {
    std::string section, key, why;
    nlohmann::json value;
  };
  std::vector<Entry> entries_;
};

/// The networks that `init` chooses among, as far as their training differs.
enum class StartNetwork { small_pictures, pictures, numbers, texts, pretrained_texts, own };

struct TrainingRule {
  std::size_t epochs = 0, batch_size = 0;  // of a rank
  double learning_rate = 0;
  bool adamw = false;  // else SGD with a momentum of 0.9
  double weight_decay = 0;
  double clip_norm = 0;      // 0: none
  double warmup_epochs = 0;  // of a schedule that falls to 0
};

/// @param samples for training
TrainingRule training_rule(StartNetwork network, std::size_t samples);

/// The side that pictures are resized to. @param middle_side of PictureSizes
int picture_side(int middle_side);

/// The number of tokens at which texts are cut: 19 of 20 fit.
/// @param lengths [words] of the texts, at least one
std::size_t text_length(std::vector<std::size_t> lengths);

/// A name for a run of what lies at `path`: its last part without ending, of letters that a folder
/// may have.
std::string run_name(const std::string& path);

}  // namespace eqt::app
