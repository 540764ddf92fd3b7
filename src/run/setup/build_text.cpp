// SPDX-License-Identifier: Apache-2.0
#include "setup/build_text.hpp"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::setup {
namespace {

namespace fs = std::filesystem;

/// A small text file of a model's folder.
constexpr FileLimits kModelFile{
    .what = "a file of the folder of a BERT or DistilBERT, which model.path names,",
    .max_bytes = std::uint64_t{1} << 20,
    .remedy = "take the folder that save_pretrained() of Hugging Face's transformers writes"};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Weights that were trained with capitals are of little use without them, and vice versa.
void require_same_capitals(const config::RunConfig& config, const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!is_there(path)) return;
  const model::Capitals found = model::parse_tokenizer_config(read_whole_file(path, kModelFile));
  if (found == model::Capitals::unknown) return;
  const bool lowercase = found == model::Capitals::do_not;
  if (lowercase != config.data.lowercase)
    fail(Kind::usage,
         "data.lowercase: expected {}, as do_lower_case of {} says, found {}; set data.lowercase "
         "to {}",
         lowercase, path.string(), config.data.lowercase, lowercase);
}

}  // namespace

data::TextOptions text_options(const config::RunConfig& config, Rank rank) {
  const fs::path model = place_of(config.model.path, rank);
  const fs::path data = place_of(config.data.path, rank);
  data::TextOptions options{.vocabulary = place_of(config.data.vocabulary, rank),
                            .max_length = config.data.max_length,
                            .lower_case = config.data.lowercase};
  const bool has_folder = config.model.name->from_folder && !config.model.path.empty();
  if (has_folder) require_same_capitals(config, model);
  if (!options.vocabulary.empty()) return options;
  const fs::path of_model = model / "vocab.txt";
  const fs::path of_data = data / "vocab.txt";
  if (has_folder)
    options.vocabulary = of_model.string();
  else if (!config.data.path.empty() && is_there(of_data))
    options.vocabulary = of_data.string();
  return options;
}

std::optional<model::EncoderShape> encoder_shape(const config::RunConfig& config, Rank rank) {
  if (!config.model.name->from_folder) return std::nullopt;
  const config::RunConfig::Model& model = config.model;
  if (!model.path.empty()) {
    const fs::path path = fs::path(place_of(model.path, rank)) / "config.json";
    return model::parse_encoder_config(read_whole_file(path, kModelFile), path.string());
  }
  return model::EncoderShape{.layers = static_cast<std::int64_t>(model.layers),
                             .hidden = static_cast<std::int64_t>(model.hidden),
                             .heads = static_cast<std::int64_t>(model.heads),
                             .intermediate = static_cast<std::int64_t>(model.intermediate),
                             .dropout = model.dropout,
                             .attention_dropout = model.dropout,
                             .head_dropout = model.dropout};
}

std::string pretrained_weights(const config::RunConfig& config, Rank rank) {
  if (!config.model.name->from_folder || config.model.path.empty()) return "";
  for (const char* const name : {"model.safetensors", "pytorch_model.bin"})
    if (const fs::path path = fs::path(place_of(config.model.path, rank)) / name; is_there(path))
      return path.string();
  return "";
}

}  // namespace eqt::setup
