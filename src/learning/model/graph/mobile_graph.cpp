// SPDX-License-Identifier: Apache-2.0
// Networks of inverted residuals as graphs.

#include "core/error.hpp"
#include "model/graph/network_graph.hpp"

namespace eqt::model {
namespace {

GraphValue activated(Graph& graph, const GraphValue& x, const std::string& path,
                     const GraphNorm& norm, Activation activation) {
  switch (activation) {
    case Activation::none:
      return norm(graph, x, path);
    case Activation::relu:
      return norm.relu(graph, x, path);
    case Activation::relu6: {
      const GraphValue y = norm(graph, x, path);
      return {graph.add("Clip", {y.name, graph.number(0), graph.number(6)}), y.sizes};
    }
    case Activation::hard_swish:
      return graph.apply("HardSwish", norm(graph, x, path));
  }
  fail(Kind::bug, "an activation of number {}", static_cast<int>(activation));
}

GraphValue add_unit(Graph& graph, const GraphValue& x, const MobileLayer& layer,
                    const GraphNorm& norm) {
  const GraphValue y = graph.convolution(x, layer.convolution,
                                         {.out = layer.out,
                                          .kernel = layer.kernel,
                                          .stride = layer.stride,
                                          .padding = layer.kernel / 2,
                                          .depthwise = layer.depthwise});
  return activated(graph, y, layer.norm, norm, layer.activation);
}

GraphValue add_squeeze(Graph& graph, const GraphValue& x, const std::string& path,
                       std::int64_t squeezed) {
  GraphValue y =
      graph.convolution(graph.mean_pixels(x), path + ".fc1", {.out = squeezed, .bias = true});
  y = graph.convolution(graph.apply("Relu", y), path + ".fc2", {.out = x.sizes[0], .bias = true});
  y = graph.apply("HardSigmoid", y, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  return graph.combine("Mul", x, y.name);
}

}  // namespace

GraphValue add_mobile(Graph& graph, const GraphValue& x, const MobilePlan& plan,
                      const ModelOptions& options) {
  const GraphNorm norm = {
      .kind = options.normalization, .groups = options.norm_groups, .epsilon = plan.norm_epsilon};
  GraphValue y = add_unit(graph, x, plan.stem, norm);
  for (const MobileBlock& block : plan.blocks) {
    const GraphValue before = y;
    if (block.widen) y = add_unit(graph, y, *block.widen, norm);
    y = add_unit(graph, y, block.filter, norm);
    if (block.squeezed > 0) y = add_squeeze(graph, y, block.squeeze, block.squeezed);
    y = add_unit(graph, y, block.narrow, norm);
    if (block.adds) y = graph.combine("Add", y, before.name);
  }
  y = graph.flatten(graph.mean_pixels(add_unit(graph, y, plan.last, norm)));
  if (!plan.hidden.empty())
    y = graph.apply("HardSwish", graph.linear(y, plan.hidden, plan.hidden_width));
  return graph.linear(y, plan.classifier, options.outputs);
}

}  // namespace eqt::model
