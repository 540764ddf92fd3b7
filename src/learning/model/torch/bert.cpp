// SPDX-License-Identifier: Apache-2.0
// The network `bert`: the encoder for the texts of a data set.

#include <ATen/Functions.h>

#include <algorithm>
#include <memory>

#include "core/error.hpp"
#include "data/text/text_input.hpp"
#include "model/torch/encoder.hpp"

namespace eqt::model {
namespace {

/// The array of the texts' tokens.
const data::ArraySpec& tokens_of(const ModelOptions& options) {
  const auto found = std::ranges::find(options.inputs, data::kTokens, &data::ArraySpec::name);
  const bool texts = found != options.inputs.end() && found->type == data::ElementType::int64 &&
                     found->shape.size() == 1 && found->bound > 0;
  if (texts) return *found;
  fail(Kind::usage,
       "model {}: expected texts as its input, found {}; set data.name to \"text\" or another "
       "model.name",
       options.model->name, data::text_of(options.inputs));
}

EncoderShape shape_of(const ModelOptions& options, const data::ArraySpec& tokens) {
  EncoderShape shape = options.encoder.value_or(EncoderShape{});
  if (shape.vocabulary == 0) shape.vocabulary = tokens.bound;
  if (shape.positions == 0) shape.positions = tokens.longest;
  if (shape.intermediate == 0) shape.intermediate = 4 * shape.hidden;
  check_encoder_shape(shape, "model");
  if (tokens.bound > shape.vocabulary)
    fail(Kind::usage,
         "data.vocabulary: expected at most the {} tokens that the network of model.path {} has, "
         "found {}; leave it out to take the folder's own",
         shape.vocabulary, options.path, tokens.bound);
  if (tokens.longest > shape.positions)
    fail(Kind::usage,
         "data.max_length: expected at most the {} tokens that the network of model.path {} takes, "
         "found {}; lower it",
         shape.positions, options.path, tokens.longest);
  return shape;
}

}  // namespace

at::Tensor Encoder::forward(const NetworkInput& input) {
  const at::Tensor& tokens = input.at(data::kTokens);
  const at::Tensor* const mask = input.find(data::kMask);
  return logits(tokens, mask != nullptr ? *mask : at::ones_like(tokens));
}

std::shared_ptr<Network> make_bert(const ModelOptions& options) {
  const data::ArraySpec& tokens = tokens_of(options);
  const bool places = options.task.kind->target == data::TargetKind::tokens;
  return std::make_shared<Encoder>(shape_of(options, tokens),
                                   places ? EncoderHead::next_token : EncoderHead::classes,
                                   options.outputs, options.seed);
}

}  // namespace eqt::model
