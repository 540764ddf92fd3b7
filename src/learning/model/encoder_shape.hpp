// SPDX-License-Identifier: Apache-2.0
// The sizes of a transformer encoder, and the file that says them. No torch.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace eqt::model {

/// The parameters have the family's names. Both compute the same, except that DistilBERT has no
/// segments, no dropout behind the attention, and ReLU in place of tanh in the classifier.
enum class EncoderFamily : std::uint8_t { bert, distilbert };

struct EncoderShape {
  EncoderFamily family = EncoderFamily::bert;
  std::int64_t vocabulary = 0;  // [tokens]
  std::int64_t positions = 0;   // [tokens] of the longest text
  std::int64_t segments = 2;    // kinds of tokens; ours are all of the first kind. 0: has none
  std::int64_t layers = 4;
  std::int64_t hidden = 256;       // a multiple of heads
  std::int64_t heads = 4;          // of attention
  std::int64_t intermediate = 0;   // width between the two linear maps of a layer; 0: 4 hidden
  double epsilon = 1e-12;          // of layer normalization
  double dropout = 0.1;            // of embeddings and of what a layer adds
  double attention_dropout = 0.1;  // of attention's weights
  double head_dropout = 0.1;       // before the classifier

  bool operator==(const EncoderShape&) const = default;
};

/// The shape that a config.json of Hugging Face's transformers states for a BERT or a DistilBERT.
/// @param path for messages
/// @throws Error{data} for what is no such file: other architectures, activations other than GELU,
/// sizes out of range
EncoderShape parse_encoder_config(const std::string& json_text, const std::string& path);

/// Capitals says whether capitals count (do_lower_case false in tokenizer_config.json) or do not;
/// it is unknown if the file is no JSON or does not say.
enum class Capitals : std::uint8_t { unknown, count, do_not };
Capitals parse_tokenizer_config(const std::string& json_text);

/// @throws Error{usage} for sizes out of range, naming them and `where` they stand
void check_encoder_shape(const EncoderShape& shape, std::string_view where);

}  // namespace eqt::model
