// SPDX-License-Identifier: Apache-2.0
#include "model/own/plan.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/error.hpp"
#include "model/architecture.hpp"
#include "model/model_options.hpp"

namespace eqt::model::precision {
namespace {

/// Writes a network down in the order of its parameters.
class Planner {
 public:
  explicit Planner(const ModelOptions& options) : options_(options) {
    const data::ImageShape images = images_of(options);
    const Frame frame = frame_of(*options.model, images);
    plan_.nodes.push_back({.kind = NodeKind::image,
                           .height = images.height + frame.top + frame.bottom,
                           .width = images.width + frame.left + frame.right,
                           .channels = images.channels});
    const Entry<NormalizationRow> kind = options.normalization;
    plan_.ranges = kind == normalizations::range_batchnorm || kind == normalizations::range_evonorm;
    plan_.rectifies = kind != normalizations::evonorm_s0 && kind != normalizations::range_evonorm;
  }

  void add(const ResNetPlan& net);
  void add(const PlainPlan& net);
  Plan finish();

 private:
  /// @return index of the slice
  std::size_t slice(Layout& layout, const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    layout.push_back({name, std::move(shape), total_count(layout), count});
    return layout.size() - 1;
  }

  int convolution(const std::string& name, int input, std::int64_t out, std::int64_t kernel,
                  std::int64_t stride, bool bias = false) {
    const Node& from = plan_.nodes[static_cast<std::size_t>(input)];
    Branch branch{.name = name,
                  .input = input,
                  .shape = {.height = from.height,
                            .width = from.width,
                            .in_channels = from.channels,
                            .out_channels = static_cast<int>(out),
                            .kernel = static_cast<int>(kernel),
                            .stride = static_cast<int>(stride)}};
    branch.weight = slice(plan_.parameters, name + ".weight", {out, from.channels, kernel, kernel});
    if (bias) branch.bias = slice(plan_.parameters, name + ".bias", {out});
    plan_.branches.push_back(std::move(branch));
    return static_cast<int>(plan_.branches.size()) - 1;
  }

  void norm(int branch, const std::string& name) {
    Branch& b = plan_.branches[static_cast<std::size_t>(branch)];
    const std::int64_t channels = b.shape.out_channels;
    plan_.groups = static_cast<std::size_t>(
        groups_for(*options_.normalization, options_.norm_groups, channels));
    b.norm = slice(plan_.parameters, name + ".weight", {channels});
    slice(plan_.parameters, name + ".bias", {channels});
    if (!plan_.rectifies) slice(plan_.parameters, name + ".v", {channels});
    if (plan_.groups > 0) return;
    b.statistics = plan_.buffers.size();
    slice(plan_.buffers, name + ".running_mean", {channels});
    slice(plan_.buffers, name + (plan_.ranges ? ".running_inverse" : ".running_var"), {channels});
    if (!plan_.ranges) ++plan_.counters;
  }

  int layer(int main, Residual residual = Residual::none, int second = -1, int stride = 1) {
    const int8::ConvolutionShape& shape = plan_.branches[static_cast<std::size_t>(main)].shape;
    plan_.nodes.push_back({.height = shape.out_height(),
                           .width = shape.out_width(),
                           .channels = shape.out_channels,
                           .main = main,
                           .residual = residual,
                           .second = second,
                           .stride = stride});
    return last_node();
  }

  int max_pool(int input, int kernel, int stride, int frame) {
    const Node& from = plan_.nodes[static_cast<std::size_t>(input)];
    const auto side = [&](int extent) { return (extent + 2 * frame - kernel) / stride + 1; };
    plan_.nodes.push_back({.kind = NodeKind::max_pool,
                           .height = side(from.height),
                           .width = side(from.width),
                           .channels = from.channels,
                           .stride = stride,
                           .input = input,
                           .kernel = kernel,
                           .frame = frame});
    return last_node();
  }

  Dense dense(const std::string& name, std::int64_t in, std::int64_t out) {
    const std::size_t weight = slice(plan_.parameters, name + ".weight", {out, in});
    const std::size_t bias = slice(plan_.parameters, name + ".bias", {out});
    return {weight, bias, static_cast<std::size_t>(in), static_cast<std::size_t>(out)};
  }

  void block(const std::string& name, const ResNetPlan& net, const BlockShape& shape);
  int last_node() const { return static_cast<int>(plan_.nodes.size()) - 1; }

  const ModelOptions& options_;
  Plan plan_;
};

void Planner::block(const std::string& name, const ResNetPlan& net, const BlockShape& shape) {
  const int input = last_node();
  int main = 0;
  if (net.bottleneck) {
    main = convolution(name + ".conv1", input, shape.width, 1, 1);
    norm(main, name + ".bn1");
    main = convolution(name + ".conv2", layer(main), shape.width, 3, shape.stride);
    norm(main, name + ".bn2");
    main = convolution(name + ".conv3", layer(main), shape.out, 1, 1);
    norm(main, name + ".bn3");
  } else {
    main = convolution(name + ".conv1", input, shape.width, 3, shape.stride);
    norm(main, name + ".bn1");
    main = convolution(name + ".conv2", layer(main), shape.out, 3, 1);
    norm(main, name + ".bn2");
  }
  if (!shape.changes()) {
    layer(main, Residual::identity, input);
  } else if (options_.shortcut == Shortcut::padding) {
    layer(main, Residual::padding, input, static_cast<int>(shape.stride));
  } else {
    const int second = convolution(name + ".downsample.0", input, shape.out, 1, shape.stride);
    norm(second, name + ".downsample.1");
    layer(main, Residual::branch, second);
  }
}

void Planner::add(const ResNetPlan& net) {
  std::int64_t channels = net.width[0];
  const int stem =
      convolution("conv1", 0, channels, net.large_stem ? 7 : 3, net.large_stem ? 2 : 1);
  norm(stem, "bn1");
  const int first = layer(stem);
  if (net.large_stem) max_pool(first, 3, 2, 1);
  for (std::size_t stage = 0; stage < net.blocks.size(); ++stage) {
    for (int i = 0; i < net.blocks[stage]; ++i) {
      const BlockShape shape = block_shape(net, stage, i, channels);
      block(fmt::format("layer{}.{}", stage + 1, i), net, shape);
      channels = shape.out;
    }
  }
  plan_.last = dense("fc", channels, options_.outputs);
}

void Planner::add(const PlainPlan& net) {
  int place = 0;
  std::int64_t channels = plan_.nodes[0].channels;
  const auto next = [&place] { return fmt::format("features.{}", place++); };
  for (const PlainPlan::Layer& row : net.layers) {
    EQT_CHECK(row.padding == row.kernel / 2, "a padding of {} around a kernel of {}", row.padding,
              row.kernel);
    const int main = convolution(next(), last_node(), row.width, row.kernel, row.stride, net.bias);
    if (net.normalizes) norm(main, next());
    const int node = layer(main);
    if (row.pool) max_pool(node, 2, 2, 0);
    place += row.pool ? 2 : 1;
    channels = row.width;
  }
  if (net.hidden > 0) {
    plan_.hidden = dense("classifier.1", channels, net.hidden);
    plan_.last = dense("classifier.3", net.hidden, options_.outputs);
  } else {
    plan_.last = dense("classifier", channels, options_.outputs);
  }
}

Plan Planner::finish() {
  plan_.readers.resize(plan_.nodes.size());
  const auto read_by = [&](int node) -> Readers& {
    return plan_.readers[static_cast<std::size_t>(node)];
  };
  for (std::size_t b = 0; b < plan_.branches.size(); ++b)
    read_by(plan_.branches[b].input).branches.push_back(static_cast<int>(b));
  for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i) {
    const Node& node = plan_.node(i);
    if (node.kind == NodeKind::max_pool) read_by(node.input).nodes.push_back(i);
    if (node.kind != NodeKind::layer) continue;
    plan_.branches[static_cast<std::size_t>(node.main)].node = i;
    if (node.residual == Residual::branch)
      plan_.branches[static_cast<std::size_t>(node.second)].node = i;
    else if (node.residual != Residual::none)
      read_by(node.second).nodes.push_back(i);
  }
  return std::move(plan_);
}

/// Refuses what our own executor cannot compute. @param what  "expected ..., found ..."
[[noreturn]] void refuse(const ModelOptions& options, const std::string& what) {
  if (options.precision == Precision::int8)
    fail(Kind::usage, "model.precision int8: {}; set model.precision to fp32", what);
  fail(Kind::usage, "this build has no LibTorch: {}; use a build with LibTorch", what);
}

void check_options(const ModelOptions& options) {
  const Entry<TaskRow> task = options.task.kind;
  if (task != tasks::classification && task != tasks::multi_label && task != tasks::regression)
    refuse(options,
           fmt::format("expected task.kind classification, multi-label or regression, found \"{}\"",
                       task->name));
  if (!options.freeze.empty())
    refuse(options,
           fmt::format("expected an empty model.freeze, since all layers are trained, found {} "
                       "patterns",
                       options.freeze.size()));
}

}  // namespace

Plan make_plan(const ModelOptions& options) {
  check_options(options);
  Planner planner(options);
  if (const auto resnet = resnet_plan(options)) {
    planner.add(*resnet);
  } else if (const auto plain = plain_plan(options)) {
    planner.add(*plain);
  } else {
    refuse(options, fmt::format("expected a ResNet, vgg11 or alexnet, found model.name \"{}\"",
                                options.model->name));
  }
  Plan plan = planner.finish();
  for (const Branch& branch : plan.branches)
    if (options.precision == Precision::int8 && branch.pixels() > int8::kMostProducts)
      refuse(options,
             fmt::format("expected layers of at most {} pixels, whose sums fit 32 bits, found "
                         "{} of {}; lower data.image_size",
                         int8::kMostProducts, branch.name, branch.pixels()));
  return plan;
}

}  // namespace eqt::model::precision
