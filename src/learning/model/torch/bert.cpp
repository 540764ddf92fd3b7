// SPDX-License-Identifier: Apache-2.0
#include "model/torch/bert.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TracerMode.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>

#include "core/error.hpp"
#include "data/text/text_input.hpp"
#include "model/architecture.hpp"

namespace eqt::model {
namespace {

constexpr double kDeviation = 0.02;  // of initial weights: Devlin et al.'s code

/// Tokens that must not be looked at have this score, the lowest number of bf16, which autocast may
/// give the scores and which does not hold float32's lowest. Its softmax is 0 in both.
constexpr double kUnseen = -0x1.fep127;

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](auto part) { return name.starts_with(part); });
}

/// The name of a tensor of Hugging Face's in the network; "": it belongs to another task's head.
std::string own_name(std::string_view name, std::string_view prefix, EncoderHead head) {
  if (starts_with_any(name, {"cls.", "vocab_", "qa_outputs.", "lm_head."}) ||
      name.ends_with("position_ids"))
    return "";
  if (head == EncoderHead::next_token &&
      starts_with_any(name, {"pooler.", "bert.pooler.", "pre_classifier.", "classifier."}))
    return "";
  std::string own(name);
  if (starts_with_any(name, {"embeddings.", "encoder.", "transformer.", "pooler."}))
    own.insert(0, prefix);
  // Models that were converted from TensorFlow have its names for the norms' parameters.
  const auto rename = [&](std::string_view old, std::string_view now) {
    if (own.ends_with(old)) own.replace(own.size() - old.size(), old.size(), now);
  };
  rename("LayerNorm.gamma", "LayerNorm.weight");
  rename("LayerNorm.beta", "LayerNorm.bias");
  return own;
}

/// While operations are recorded, a size is a constant of the record. Whatever depends on the
/// number or length of texts is then computed by operations without sizes, with the same numbers.
bool is_traced() { return at::tracer::impl::is_dispatch_enabled(); }

/// (n, l), at each token its place in the text
at::Tensor places_of(const at::Tensor& tokens) { return at::cumsum(at::ones_like(tokens), 1) - 1; }

bool is_of_head(std::string_view name) {
  return starts_with_any(name, {"bert.pooler.", "pre_classifier.", "classifier.", "next_token."});
}

}  // namespace

at::Tensor Encoder::Affine::operator()(const at::Tensor& x) const {
  return at::linear(x, weight, bias);
}

at::Tensor Encoder::Norm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
}

Encoder::Encoder(const EncoderShape& shape, EncoderHead head, std::int64_t outputs,
                 std::uint64_t seed)
    : shape_(shape), head_(head), random_(at::detail::createCPUGenerator(seed)) {
  const bool bert = shape.family == EncoderFamily::bert;
  const std::string prefix = bert ? "bert." : "distilbert.";
  add_embeddings(prefix + "embeddings.");
  const std::string layers = prefix + (bert ? "encoder.layer." : "transformer.layer.");
  for (std::int64_t i = 0; i < shape.layers; ++i)
    layers_.push_back(add_layer(layers + std::to_string(i) + "."));
  add_head(outputs);
}

at::Tensor Encoder::add(const std::string& name, at::Tensor value) {
  value.set_requires_grad(true);
  parameters_.emplace_back(name, value);
  return value;
}

at::Tensor Encoder::add_drawn(const std::string& name, at::IntArrayRef sizes) {
  return add(name, at::empty(sizes).normal_(0, kDeviation, random_));
}

Encoder::Affine Encoder::add_affine(const std::string& name, std::int64_t in, std::int64_t out) {
  const at::Tensor weight = add_drawn(name + ".weight", {out, in});
  return {weight, add(name + ".bias", at::zeros({out}))};
}

Encoder::Norm Encoder::add_norm(const std::string& name) {
  const at::Tensor weight = add(name + ".weight", at::ones({shape_.hidden}));
  return {weight, add(name + ".bias", at::zeros({shape_.hidden})), shape_.epsilon};
}

Dropout Encoder::add_dropout(double share) {
  const std::size_t number = dropouts_.size();
  dropouts_.push_back(register_module("dropout" + std::to_string(number),
                                      Dropout(share, static_cast<std::uint32_t>(number))));
  return dropouts_.back();
}

void Encoder::add_embeddings(const std::string& prefix) {
  words_ = add_drawn(prefix + "word_embeddings.weight", {shape_.vocabulary, shape_.hidden});
  {
    const at::NoGradGuard no_grad;
    words_.select(0, 0).zero_();
  }
  positions_ = add_drawn(prefix + "position_embeddings.weight", {shape_.positions, shape_.hidden});
  if (shape_.segments > 0)
    segments_ =
        add_drawn(prefix + "token_type_embeddings.weight", {shape_.segments, shape_.hidden});
  embedding_norm_ = add_norm(prefix + "LayerNorm");
  embedding_dropout_ = add_dropout(shape_.dropout);
}

Encoder::Layer Encoder::add_layer(const std::string& prefix) {
  const bool bert = shape_.family == EncoderFamily::bert;
  const auto name = [&](const char* of_bert, const char* of_distilbert) {
    return prefix + (bert ? of_bert : of_distilbert);
  };
  const std::int64_t h = shape_.hidden;
  Layer layer;
  layer.query = add_affine(name("attention.self.query", "attention.q_lin"), h, h);
  layer.key = add_affine(name("attention.self.key", "attention.k_lin"), h, h);
  layer.value = add_affine(name("attention.self.value", "attention.v_lin"), h, h);
  layer.attended = add_affine(name("attention.output.dense", "attention.out_lin"), h, h);
  layer.first = add_norm(name("attention.output.LayerNorm", "sa_layer_norm"));
  layer.wide = add_affine(name("intermediate.dense", "ffn.lin1"), h, shape_.intermediate);
  layer.narrow = add_affine(name("output.dense", "ffn.lin2"), shape_.intermediate, h);
  layer.second = add_norm(name("output.LayerNorm", "output_layer_norm"));
  layer.weights = add_dropout(shape_.attention_dropout);
  layer.behind_attention = add_dropout(bert ? shape_.dropout : 0);
  layer.behind_narrow = add_dropout(shape_.dropout);
  return layer;
}

void Encoder::add_head(std::int64_t outputs) {
  if (head_ == EncoderHead::next_token) {
    EQT_CHECK(outputs <= shape_.vocabulary, "{} tokens to find among {}", outputs,
              shape_.vocabulary);
    token_bias_ = add("next_token.bias", at::zeros({shape_.vocabulary}));
    return;
  }
  const bool bert = shape_.family == EncoderFamily::bert;
  pooler_ = add_affine(bert ? "bert.pooler.dense" : "pre_classifier", shape_.hidden, shape_.hidden);
  head_dropout_ = add_dropout(shape_.head_dropout);
  classifier_ = add_affine("classifier", shape_.hidden, outputs);
}

weights::FileNames Encoder::file_names() const {
  const std::string prefix = shape_.family == EncoderFamily::bert ? "bert." : "distilbert.";
  return {
      .own = [prefix, head = head_](std::string_view name) { return own_name(name, prefix, head); },
      .optional = is_of_head};
}

void Encoder::draw_from(const RandomKey& key) {
  for (Dropout& dropout : dropouts_) dropout->draw_from(key);
}

at::Tensor Encoder::embedded(const at::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  EQT_CHECK(length <= shape_.positions, "texts of {} tokens for {} positions", length,
            shape_.positions);
  const at::Tensor positions =
      is_traced() ? at::embedding(positions_, places_of(tokens)) : positions_.narrow(0, 0, length);
  at::Tensor x = at::embedding(words_, tokens) + positions;
  if (segments_.defined()) x = x + segments_.select(0, 0);
  return embedding_dropout_->forward(embedding_norm_(x));
}

/// (n, 1, 1 or l, l), true where a token must not look; undefined: it may look at all.
at::Tensor Encoder::unseen(const at::Tensor& mask) const {
  at::Tensor hidden;
  if (is_traced() || !mask.all().item<bool>()) hidden = mask.eq(0).unsqueeze(1).unsqueeze(1);
  if (head_ == EncoderHead::classes) return hidden;
  if (is_traced()) {
    const at::Tensor place = places_of(mask).unsqueeze(1);
    return at::logical_or(hidden, place.unsqueeze(2).gt(place.unsqueeze(3)));
  }
  const std::int64_t length = mask.size(1);
  const at::Tensor later = at::ones({length, length}, mask.options().dtype(at::kBool))
                               .triu(1)
                               .view({1, 1, length, length});
  return hidden.defined() ? at::logical_or(hidden, later) : later;
}

at::Tensor Encoder::attention(Layer& layer, const at::Tensor& x, const at::Tensor& hidden_from) {
  const std::int64_t n = x.size(0), length = x.size(1), width = shape_.hidden / shape_.heads;
  const auto by_head = [&](const Affine& affine) {  // (n, a, l, h / a)
    if (is_traced()) return at::stack(affine(x).chunk(shape_.heads, 2), 1);
    return affine(x).view({n, length, shape_.heads, width}).transpose(1, 2);
  };
  at::Tensor scores = at::matmul(by_head(layer.query), by_head(layer.key).transpose(2, 3)) /
                      std::sqrt(static_cast<double>(width));
  if (hidden_from.defined()) scores = scores.masked_fill(hidden_from, kUnseen);
  const at::Tensor weights = layer.weights->forward(at::softmax(scores, -1));
  const at::Tensor mixed = at::matmul(weights, by_head(layer.value));
  if (is_traced()) return layer.attended(at::cat(mixed.unbind(1), 2));
  return layer.attended(mixed.transpose(1, 2).reshape({n, length, shape_.hidden}));
}

at::Tensor Encoder::logits(const at::Tensor& tokens, const at::Tensor& mask) {
  const at::Tensor hidden_from = unseen(mask);
  at::Tensor x = embedded(tokens);
  for (Layer& layer : layers_) {
    x = layer.first(x + layer.behind_attention->forward(attention(layer, x, hidden_from)));
    const at::Tensor inner = layer.narrow(at::gelu(layer.wide(x)));
    x = layer.second(x + layer.behind_narrow->forward(inner));
  }
  if (head_ == EncoderHead::next_token) return at::linear(x, words_, token_bias_);
  const at::Tensor pooled = pooler_(x.select(1, 0));
  const bool bert = shape_.family == EncoderFamily::bert;
  return classifier_(head_dropout_->forward(bert ? at::tanh(pooled) : at::relu(pooled)));
}

at::Tensor Encoder::forward(const NetworkInput& input) {
  const at::Tensor& tokens = input.at(data::kTokens);
  const at::Tensor* const mask = input.find(data::kMask);
  return logits(tokens, mask != nullptr ? *mask : at::ones_like(tokens));
}

std::shared_ptr<Network> make_bert(const ModelOptions& options) {
  const EncoderPlan plan = encoder_plan(options);
  return std::make_shared<Encoder>(plan.shape,
                                   plan.next_token ? EncoderHead::next_token : EncoderHead::classes,
                                   options.outputs, options.seed);
}

}  // namespace eqt::model
