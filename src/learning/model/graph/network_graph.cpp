// SPDX-License-Identifier: Apache-2.0
#include "model/graph/network_graph.hpp"

#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/model_options.hpp"
#include "model/whitening.hpp"

namespace eqt::model {
namespace {

GraphNorm norm_of(const ModelOptions& options) {
  return {.kind = options.normalization, .groups = options.norm_groups};
}

/// Shortcut A: every stride-th pixel, and new channels of zeros on both sides.
GraphValue padded_shortcut(Graph& graph, const GraphValue& x, const BlockShape& shape) {
  constexpr std::int64_t kEnd = INT64_MAX;
  const auto side = [&](std::size_t i) { return (x.sizes[i] + shape.stride - 1) / shape.stride; };
  const GraphValue pixels = {
      graph.add("Slice", {x.name, graph.indices({0, 0}), graph.indices({kEnd, kEnd}),
                          graph.indices({2, 3}), graph.indices({shape.stride, shape.stride})}),
      {x.sizes[0], side(1), side(2)}};
  const std::int64_t extra = shape.out - shape.in, before = extra / 2;
  return graph.pad(pixels, {before, 0, 0}, {extra - before, 0, 0});
}

struct ResNetBlock {
  std::string path;
  BlockShape shape;
  bool bottleneck = false;
  bool pads_shortcut = false;
};

GraphValue add_block(Graph& graph, const GraphValue& x, const ResNetBlock& block,
                     const GraphNorm& norm) {
  const auto& [in, width, out, stride] = block.shape;
  const auto named = [&](const char* name) { return block.path + name; };
  const auto convolve = [&](const GraphValue& from, const char* name, std::int64_t channels,
                            std::int64_t kernel, std::int64_t step) {
    return graph.convolution(
        from, named(name),
        {.out = channels, .kernel = kernel, .stride = step, .padding = kernel / 2});
  };
  GraphValue y;
  if (block.bottleneck) {
    y = norm.relu(graph, convolve(x, "conv1", width, 1, 1), named("bn1"));
    y = norm.relu(graph, convolve(y, "conv2", width, 3, stride), named("bn2"));
    y = norm(graph, convolve(y, "conv3", out, 1, 1), named("bn3"));
  } else {
    y = norm.relu(graph, convolve(x, "conv1", width, 3, stride), named("bn1"));
    y = norm(graph, convolve(y, "conv2", out, 3, 1), named("bn2"));
  }
  GraphValue shortcut = x;
  if (block.shape.changes())
    shortcut = block.pads_shortcut ? padded_shortcut(graph, x, block.shape)
                                   : norm(graph, convolve(x, "downsample.0", out, 1, stride),
                                          named("downsample.1"));
  const GraphValue sum = graph.combine("Add", y, shortcut.name);
  return norm.replaces_activation() ? sum : graph.apply("Relu", sum);
}

/// The result of a network of pictures.
GraphValue of_pictures(Graph& graph, const GraphValue& x, const ModelOptions& options) {
  if (const auto plan = resnet_plan(options)) return add_resnet(graph, x, *plan, options);
  if (const auto plan = plain_plan(options)) return add_plain(graph, x, *plan, options);
  if (const auto plan = mobile_plan(options)) return add_mobile(graph, x, *plan, options);
  if (const auto plan = vit_plan(options)) return add_vit(graph, x, *plan, options);
  EQT_CHECK(options.model->whitens, "{} has no graph", options.model->name);
  return add_airbench(graph, x, airbench_plan(options), options);
}

}  // namespace

std::optional<Graph> network_graph(const ModelOptions& options) {
  if (options.model->users_own) return {};
  check_options(options);
  Graph graph;
  if (options.model == models::mlp) {
    add_mlp(graph, options);
    return graph;
  }
  if (!options.model->images_only) {
    add_encoder(graph, encoder_plan(options), options);
    return graph;
  }
  const data::ImageShape images = images_of(options);
  const Frame frame = frame_of(*options.model, images);
  GraphValue x = graph.input(options.inputs.front());
  if (frame != Frame{})
    x = graph.pad(x, {0, frame.top, frame.left}, {0, frame.bottom, frame.right});
  graph.output(of_pictures(graph, x, options), {options.outputs});
  return graph;
}

void add_mlp(Graph& graph, const ModelOptions& options) {
  std::vector<std::string> parts;
  GraphValue x;
  std::int64_t numbers = 0;
  for (const data::ArraySpec& spec : options.inputs) {
    x = graph.flatten(graph.input(spec));
    parts.push_back(x.name);
    numbers += x.sizes[0];
  }
  if (parts.size() > 1) x = {graph.add("Concat", parts, {{"axis", std::int64_t{1}}}), {numbers}};
  // A ReLU has a number, too.
  for (int layer = 0; layer < options.hidden_layers; ++layer)
    x = graph.apply("Relu", graph.linear(x, std::to_string(2 * layer), options.hidden_width));
  const GraphValue result =
      graph.linear(x, std::to_string(2 * options.hidden_layers), options.outputs);
  graph.output(result, {options.outputs});
}

GraphValue add_resnet(Graph& graph, const GraphValue& x, const ResNetPlan& plan,
                      const ModelOptions& options) {
  const GraphNorm norm = norm_of(options);
  const std::int64_t kernel = plan.large_stem ? 7 : 3;
  GraphValue y = graph.convolution(x, "conv1",
                                   {.out = plan.width[0],
                                    .kernel = kernel,
                                    .stride = plan.large_stem ? 2 : 1,
                                    .padding = kernel / 2});
  y = norm.relu(graph, y, "bn1");
  if (plan.large_stem) y = graph.max_pool(y, 3, 2, 1);
  for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage)
    for (int i = 0; i < plan.blocks[stage]; ++i)
      y = add_block(graph, y,
                    {.path = fmt::format("layer{}.{}.", stage + 1, i),
                     .shape = block_shape(plan, stage, i, y.sizes[0]),
                     .bottleneck = plan.bottleneck,
                     .pads_shortcut = options.shortcut == Shortcut::padding},
                    norm);
  return graph.linear(graph.flatten(graph.mean_pixels(y)), "fc", options.outputs);
}

GraphValue add_plain(Graph& graph, const GraphValue& x, const PlainPlan& plan,
                     const ModelOptions& options) {
  const GraphNorm norm = norm_of(options);
  GraphValue y = x;
  int place = 0;  // in torchvision's numbering
  for (const PlainPlan::Layer& layer : plan.layers) {
    const auto next = [&] { return "features." + std::to_string(place++); };
    y = graph.convolution(y, next(),
                          {.out = layer.width,
                           .kernel = layer.kernel,
                           .stride = layer.stride,
                           .padding = layer.padding,
                           .bias = plan.bias});
    y = plan.normalizes ? norm.relu(graph, y, next()) : graph.apply("Relu", y);
    if (layer.pool) y = graph.max_pool(y, 2, 2, 0);
    place += layer.pool ? 2 : 1;
  }
  y = graph.flatten(graph.mean_pixels(y));
  if (plan.hidden == 0) return graph.linear(y, "classifier", options.outputs);
  y = graph.apply("Relu", graph.linear(y, "classifier.1", plan.hidden));
  return graph.linear(y, "classifier.3", options.outputs);
}

GraphValue add_airbench(Graph& graph, const GraphValue& x, const AirbenchPlan& plan,
                        const ModelOptions& options) {
  const GraphNorm norm = norm_of(options);
  const auto activated = [&](const GraphValue& from, const std::string& path) {
    const GraphValue z = norm(graph, from, path);
    return norm.replaces_activation() ? z : graph.gelu(z);
  };
  GraphValue y = graph.gelu(graph.convolution(
      x, "whiten", {.out = plan.whitened, .kernel = kWhitenedSide, .bias = true}));
  for (std::size_t i = 0; i < plan.width.size(); ++i) {
    const std::string block = "block" + std::to_string(i + 1) + ".";
    const GraphConvolution shape = {.out = plan.width[i], .kernel = 3, .padding = 1};
    y = graph.max_pool(graph.convolution(y, block + "conv1", shape), 2, 2, 0);
    y = activated(y, block + "norm1");
    y = activated(graph.convolution(y, block + "conv2", shape), block + "norm2");
  }
  const GraphValue means = graph.flatten(graph.max_pixels(y));
  const GraphValue outputs = graph.linear(means, "head", options.outputs);
  return graph.combine("Div", outputs, graph.number(static_cast<float>(means.sizes[0])));
}

}  // namespace eqt::model
