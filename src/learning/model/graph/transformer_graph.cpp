// SPDX-License-Identifier: Apache-2.0
// Transformers as graphs: vision transformers and encoders of texts.
//
// Symbols  texts or pictures of l tokens, hidden width h, a heads of h / a

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "data/text/text_input.hpp"
#include "model/graph/network_graph.hpp"

namespace eqt::model {
namespace {

struct Heads {
  GraphValue query, key, value;  // (l, h) each
  std::int64_t count = 1;
  std::string hidden =
      {};  // (1, l or 1, l), true where a token must not look; "": it may look at all
};

GraphValue attention(Graph& graph, const Heads& heads) {
  const std::int64_t width = heads.query.sizes.back() / heads.count;
  const auto by_head = [&](const GraphValue& x, Sizes order) {
    return graph.transpose(graph.reshape(x, {0, heads.count, width}), std::move(order));
  };
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  const GraphValue query = graph.combine("Mul", heads.query, graph.number(factor));
  GraphValue scores =
      graph.product(by_head(query, {0, 2, 1, 3}), by_head(heads.key, {0, 2, 3, 1}));  // (a, l, l)
  if (!heads.hidden.empty())
    scores = {graph.add("Where", {heads.hidden, graph.number(std::numeric_limits<float>::lowest()),
                                  scores.name}),
              scores.sizes};
  const GraphValue weights = graph.apply("Softmax", scores, {{"axis", std::int64_t{-1}}});
  const GraphValue mixed = graph.product(weights, by_head(heads.value, {0, 2, 1, 3}));
  return graph.reshape(graph.transpose(mixed, {0, 2, 1, 3}), {0, heads.count * width});
}

/// The names of a layer's parts.
struct EncoderNames {
  std::string embeddings, layers, query, key, value, attended, first, wide, narrow, second;
};

EncoderNames encoder_names(EncoderFamily family) {
  if (family == EncoderFamily::bert)
    return {.embeddings = "bert.embeddings.",
            .layers = "bert.encoder.layer.",
            .query = ".attention.self.query",
            .key = ".attention.self.key",
            .value = ".attention.self.value",
            .attended = ".attention.output.dense",
            .first = ".attention.output.LayerNorm",
            .wide = ".intermediate.dense",
            .narrow = ".output.dense",
            .second = ".output.LayerNorm"};
  return {.embeddings = "distilbert.embeddings.",
          .layers = "distilbert.transformer.layer.",
          .query = ".attention.q_lin",
          .key = ".attention.k_lin",
          .value = ".attention.v_lin",
          .attended = ".attention.out_lin",
          .first = ".sa_layer_norm",
          .wide = ".ffn.lin1",
          .narrow = ".ffn.lin2",
          .second = ".output_layer_norm"};
}

/// Returns what tokens must not look at, (1, l or 1, l), for masks and for networks that find the
/// next token; "" if there is none.
/// @param places 0 to l - 1
std::string hidden_from(Graph& graph, const std::string& places, const std::string& mask,
                        bool next_token) {
  std::string hidden;
  if (!mask.empty())
    hidden =
        graph.add("Unsqueeze", {graph.add("Equal", {mask, graph.index(0)}), graph.indices({1, 2})});
  if (!next_token) return hidden;
  const std::string later =
      graph.add("Greater", {graph.add("Unsqueeze", {places, graph.indices({0})}),
                            graph.add("Unsqueeze", {places, graph.indices({1})})});
  return hidden.empty() ? later : graph.add("Or", {hidden, later});
}

/// The sum of what stands for tokens, places and segments, (l, h).
GraphValue embedded(Graph& graph, const GraphValue& tokens, const std::string& places,
                    const EncoderShape& shape, const std::string& path) {
  const auto rows = [&](const char* name, std::int64_t count, const std::string& which) {
    const std::string table = graph.parameter(path + name, {count, shape.hidden});
    return graph.add("Gather", {table, which});
  };
  const GraphValue words = {rows("word_embeddings.weight", shape.vocabulary, tokens.name),
                            {tokens.sizes[0], shape.hidden}};
  const GraphValue sum =
      graph.combine("Add", words, rows("position_embeddings.weight", shape.positions, places));
  if (shape.segments == 0) return sum;
  return graph.combine("Add", sum,
                       rows("token_type_embeddings.weight", shape.segments, graph.index(0)));
}

}  // namespace

GraphValue add_vit(Graph& graph, const GraphValue& x, const VitPlan& plan,
                   const ModelOptions& options) {
  const std::int64_t h = plan.hidden, others = plan.tokens() - 1;
  const GraphValue filtered = graph.convolution(
      x, "patch_embed.proj", {.out = h, .kernel = plan.patch, .stride = plan.patch, .bias = true});
  const GraphValue patches = graph.transpose(graph.reshape(filtered, {h, others}), {0, 2, 1});
  // A row of zeros stands for the class token, so that no operation needs the number of pictures.
  const GraphValue padded = graph.pad(patches, {1, 0}, {0, 0});
  const std::string token = graph.add(
      "Pad", {graph.parameter("cls_token", {1, 1, h}), graph.indices({0, 0, 0, 0, others, 0})});
  const std::string start =
      graph.add("Add", {graph.parameter("pos_embed", {1, plan.tokens(), h}), token});
  GraphValue y = graph.combine("Add", padded, start);
  for (std::int64_t i = 0; i < plan.layers; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    const GraphValue all =
        graph.linear(graph.layer_norm(y, block + "norm1", kVitEpsilon), block + "attn.qkv", 3 * h);
    const auto parts = graph.add_several("Split", {all.name, graph.indices({h, h, h})},
                                         {{"axis", std::int64_t{2}}}, 3);
    const auto part = [&](std::size_t k) { return GraphValue{parts[k], {plan.tokens(), h}}; };
    const GraphValue mixed =
        attention(graph, {.query = part(0), .key = part(1), .value = part(2), .count = plan.heads});
    y = graph.combine("Add", y, graph.linear(mixed, block + "attn.proj", h).name);
    const GraphValue wide = graph.gelu(
        graph.linear(graph.layer_norm(y, block + "norm2", kVitEpsilon), block + "mlp.fc1", 4 * h));
    y = graph.combine("Add", y, graph.linear(wide, block + "mlp.fc2", h).name);
  }
  // The norm is that of each token, and only the class token's is read.
  return graph.linear(graph.layer_norm(graph.select(y, 0), "norm", kVitEpsilon), "head",
                      options.outputs);
}

void add_encoder(Graph& graph, const EncoderPlan& plan, const ModelOptions& options) {
  const EncoderShape& shape = plan.shape;
  const std::int64_t h = shape.hidden;
  const EncoderNames names = encoder_names(shape.family);
  GraphValue tokens;
  std::string mask;
  for (const data::ArraySpec& spec : options.inputs) {
    const GraphValue array = graph.input(spec);
    if (spec.name == data::kTokens) tokens = array;
    if (spec.name == data::kMask) mask = array.name;
  }
  const std::string length = graph.add(
      "Squeeze",
      {graph.add("Shape", {tokens.name}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}})});
  const std::string places = graph.add("Range", {graph.index(0), length, graph.index(1)});
  const std::string hidden = hidden_from(graph, places, mask, plan.next_token);
  GraphValue y = graph.layer_norm(embedded(graph, tokens, places, shape, names.embeddings),
                                  names.embeddings + "LayerNorm", shape.epsilon);
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const std::string layer = names.layers + std::to_string(i);
    const auto linear = [&](const GraphValue& from, const std::string& name, std::int64_t out) {
      return graph.linear(from, layer + name, out);
    };
    const GraphValue mixed = attention(graph, {.query = linear(y, names.query, h),
                                               .key = linear(y, names.key, h),
                                               .value = linear(y, names.value, h),
                                               .count = shape.heads,
                                               .hidden = hidden});
    const GraphValue attended = linear(mixed, names.attended, h);
    y = graph.layer_norm(graph.combine("Add", y, attended.name), layer + names.first,
                         shape.epsilon);
    const GraphValue wide = graph.gelu(linear(y, names.wide, shape.intermediate));
    const GraphValue narrow = linear(wide, names.narrow, h);
    y = graph.layer_norm(graph.combine("Add", y, narrow.name), layer + names.second, shape.epsilon);
  }
  if (plan.next_token) {
    y = graph.linear(y, names.embeddings + "word_embeddings.weight", "next_token.bias",
                     shape.vocabulary);
    return graph.output(y, {-1, shape.vocabulary});
  }
  const bool bert = shape.family == EncoderFamily::bert;
  y = graph.linear(graph.select(y, 0), bert ? "bert.pooler.dense" : "pre_classifier", h);
  y = graph.apply(bert ? "Tanh" : "Relu", y);
  graph.output(graph.linear(y, "classifier", options.outputs), {options.outputs});
}

}  // namespace eqt::model
