// SPDX-License-Identifier: Apache-2.0
// The network `bert`: the encoder of a transformer, as BERT and DistilBERT have it, for the texts
// of a data set. Private to this room.
//
// Source   A. Vaswani et al., arXiv:1706.03762; J. Devlin et al., arXiv:1810.04805, section 3 and
//          appendix A.2; V. Sanh et al., arXiv:1910.01108
// Symbols  n texts of l tokens, hidden width h, a heads of h / a
// Layer    x = LN(x + W_o attention(x)); x = LN(x + W_2 gelu(W_1 x)), where gelu(x) = x Phi(x) by
//          the error function, and attention takes the softmax of q k / sqrt(h / a) over tokens
// Head     of classes: W_c tanh(W_p x_[CLS]), as BERT has it; with ReLU in place of tanh for
//          DistilBERT. Of the next token: x times the transposed embeddings, plus a bias; a token
//          then sees only those before it
// Start    N(0, 0.02), [PAD]'s embedding and biases 0, norms 1 and 0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/encoder_shape.hpp"
#include "model/torch/network.hpp"

namespace eqt::model {

enum class EncoderHead : std::uint8_t { classes, next_token };

class Encoder final : public Network {
 public:
  /// @param outputs of the head: classes, or tokens of the vocabulary
  Encoder(const EncoderShape& shape, EncoderHead head, std::int64_t outputs, std::uint64_t seed);

  at::Tensor forward(const NetworkInput& input) override;
  /// @param tokens (n, l) int64
  /// @param mask (n, l) int64, 0 for tokens that only fill up
  /// @return (n, classes), or (n, l, tokens)
  at::Tensor logits(const at::Tensor& tokens, const at::Tensor& mask);

  void draw_from(const RandomKey& key) override;
  NamedTensors parameters_by_name() const override { return parameters_; }
  NamedTensors buffers_by_name() const override { return {}; }
  /// Files of Hugging Face's may have the encoder alone, and heads for other tasks, which are
  /// skipped. Classifier and pooler keep their values if a file lacks them.
  weights::FileNames file_names() const override;

 private:
  struct Affine {
    at::Tensor weight;  // (out, in)
    at::Tensor bias;    // (out)
    at::Tensor operator()(const at::Tensor& x) const;
  };
  struct Norm {
    at::Tensor weight, bias;  // (h)
    double epsilon = 0;
    at::Tensor operator()(const at::Tensor& x) const;
  };
  struct Layer {
    Affine query, key, value, attended;
    Norm first;
    Affine wide, narrow;
    Norm second;
    Dropout weights{nullptr}, behind_attention{nullptr}, behind_narrow{nullptr};  // or none
  };

  // These add parameters, in the order of the names that Hugging Face gives them.
  at::Tensor add(const std::string& name, at::Tensor value);
  at::Tensor add_drawn(const std::string& name, at::IntArrayRef sizes);
  Affine add_affine(const std::string& name, std::int64_t in, std::int64_t out);
  Norm add_norm(const std::string& name);
  Dropout add_dropout(double share);
  void add_embeddings(const std::string& prefix);
  Layer add_layer(const std::string& prefix);
  void add_head(std::int64_t outputs);

  at::Tensor embedded(const at::Tensor& tokens);
  at::Tensor attention(Layer& layer, const at::Tensor& x, const at::Tensor& hidden_from);
  at::Tensor unseen(const at::Tensor& mask) const;

  const EncoderShape shape_;
  const EncoderHead head_;
  at::Generator random_;
  NamedTensors parameters_;
  std::vector<Dropout> dropouts_;
  at::Tensor words_, positions_, segments_;  // embeddings
  Norm embedding_norm_;
  Dropout embedding_dropout_{nullptr}, head_dropout_{nullptr};
  std::vector<Layer> layers_;
  Affine pooler_, classifier_;
  at::Tensor token_bias_;
};

}  // namespace eqt::model
