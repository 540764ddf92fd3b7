// SPDX-License-Identifier: Apache-2.0
#include "model/own/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/architecture.hpp"
#include "model/model_options.hpp"
#include "model/whitening.hpp"

namespace eqt::model::precision {
namespace {

/// Writes a network down in the order of its parameters.
class Planner {
 public:
  explicit Planner(const ModelOptions& options) : options_(options) {
    const data::ImageShape images = images_of(options);
    const Frame frame = frame_of(*options.model, images);
    pictures_ = {.channels = images.channels,
                 .height = images.height + frame.top + frame.bottom,
                 .width = images.width + frame.left + frame.right};
    const Entry<NormalizationRow> kind = options.normalization;
    plan_.ranges = kind == normalizations::range_batchnorm || kind == normalizations::range_evonorm;
    plan_.norm_activates =
        kind == normalizations::evonorm_s0 || kind == normalizations::range_evonorm;
    if (plan_.norm_activates) usual_ = Nonlinearity::none;
  }

  void add(const ResNetPlan& net);
  void add(const PlainPlan& net);
  void add(const AirbenchPlan& net);
  void add(const MobilePlan& net);
  Plan finish();

 private:
  void image(const data::ImageShape& shape) {
    plan_.nodes.push_back({.kind = NodeKind::image,
                           .height = shape.height,
                           .width = shape.width,
                           .channels = shape.channels});
  }

  std::size_t tensor(const std::string& name, std::vector<std::int64_t> shape) {
    return plan_.add(name, std::move(shape));
  }

  int convolution(const std::string& name, int input, std::int64_t out, std::int64_t kernel,
                  std::int64_t stride, bool bias = false, bool depthwise = false) {
    const Node& from = plan_.nodes[static_cast<std::size_t>(input)];
    Branch branch{.name = name,
                  .input = input,
                  .shape = {.height = from.height,
                            .width = from.width,
                            .in_channels = from.channels,
                            .out_channels = static_cast<int>(out),
                            .kernel = static_cast<int>(kernel),
                            .stride = static_cast<int>(stride),
                            .depthwise = depthwise}};
    branch.weight = tensor(name + ".weight", {out, depthwise ? 1 : from.channels, kernel, kernel});
    if (bias) branch.bias = tensor(name + ".bias", {out});
    plan_.branches.push_back(std::move(branch));
    return static_cast<int>(plan_.branches.size()) - 1;
  }

  void norm(int branch, const std::string& name) {
    Branch& b = plan_.branches[static_cast<std::size_t>(branch)];
    const std::int64_t channels = b.shape.out_channels;
    plan_.groups = static_cast<std::size_t>(
        groups_for(*options_.normalization, options_.norm_groups, channels));
    b.norm = tensor(name + ".weight", {channels});
    tensor(name + ".bias", {channels});
    if (plan_.norm_activates) tensor(name + ".v", {channels});
    if (plan_.groups > 0) return;
    b.statistics = plan_.buffers.size();
    TensorPlan::add_slice(plan_.buffers, name + ".running_mean", {channels});
    TensorPlan::add_slice(plan_.buffers,
                          name + (plan_.ranges ? ".running_inverse" : ".running_var"), {channels});
    if (!plan_.ranges) ++plan_.counters;
  }

  int layer(int main, Residual residual = Residual::none, int second = -1, int stride = 1) {
    return layer(main, usual_, residual, second, stride);
  }

  int layer(int main, Nonlinearity nonlinearity, Residual residual = Residual::none,
            int second = -1, int stride = 1) {
    EQT_CHECK(residual == Residual::none || nonlinearity != Nonlinearity::relu6,
              "ReLU6 of a sum behind {}", plan_.branch(main).name);
    const Branch& branch = plan_.branch(main);
    plan_.nodes.push_back({.height = branch.height(),
                           .width = branch.width(),
                           .channels = branch.shape.out_channels,
                           .nonlinearity = nonlinearity,
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
    const std::size_t weight = tensor(name + ".weight", {out, in});
    const std::size_t bias = tensor(name + ".bias", {out});
    return {weight, bias, static_cast<std::size_t>(in), static_cast<std::size_t>(out)};
  }

  void block(const std::string& name, const ResNetPlan& net, const BlockShape& shape);
  int branch(const MobileLayer& layer);
  void squeeze(const std::string& path, std::int64_t hidden);
  void unit(const MobileLayer& layer);
  void keep_statistics();
  bool learns(const Node& node) const;
  int last_node() const { return static_cast<int>(plan_.nodes.size()) - 1; }

  const ModelOptions& options_;
  data::ImageShape pictures_;  // with their frame
  Nonlinearity usual_ = Nonlinearity::relu;
  std::vector<std::string>
      untrained_;  // names of parameters that the network itself does not train
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
  image(pictures_);
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
  image(pictures_);
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
    plan_.hidden->dropout = kPlainDropout;
    plan_.last = dense("classifier.3", net.hidden, options_.outputs);
  } else {
    plan_.last = dense("classifier", channels, options_.outputs);
  }
}

void Planner::add(const AirbenchPlan& net) {
  if (!plan_.norm_activates) usual_ = Nonlinearity::gelu;
  plan_.pooling = Pooling::maximum;
  plan_.norm_share = net.norm_share;
  const std::size_t filters =
      tensor("whiten.weight", {net.whitened, pictures_.channels, kWhitenedSide, kWhitenedSide});
  untrained_ = {"whiten.weight"};
  plan_.whitening = {
      .weight = filters, .bias = tensor("whiten.bias", {net.whitened}), .pictures = pictures_};
  image({.channels = static_cast<int>(net.whitened),
         .height = pictures_.height - kWhitenedSide + 1,
         .width = pictures_.width - kWhitenedSide + 1});
  const auto half = [&](const std::string& name, std::int64_t width, bool pool) {
    const int main =
        convolution(name + fmt::format(".conv{}", pool ? 1 : 2), last_node(), width, 3, 1);
    Branch& branch = plan_.branches.back();
    branch.pool = pool;
    branch.passes_on = true;
    norm(main, name + fmt::format(".norm{}", pool ? 1 : 2));
    layer(main);
  };
  for (std::size_t i = 0; i < net.width.size(); ++i) {
    const std::string name = fmt::format("block{}", i + 1);
    half(name, net.width[i], true);
    half(name, net.width[i], false);
  }
  plan_.last = dense("head", net.width.back(), options_.outputs);
  plan_.head_start = HeadStart::airbench;
  plan_.output_scale = 1 / static_cast<float>(net.width.back());
}

Nonlinearity nonlinearity_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return Nonlinearity::none;
    case Activation::relu:
      return Nonlinearity::relu;
    case Activation::relu6:
      return Nonlinearity::relu6;
    case Activation::hard_swish:
      return Nonlinearity::hard_swish;
  }
  fail(Kind::bug, "an activation of number {}", static_cast<int>(activation));
}

/// A convolution with its normalization.
int Planner::branch(const MobileLayer& layer) {
  const int result = convolution(layer.convolution, last_node(), layer.out, layer.kernel,
                                 layer.stride, false, layer.depthwise);
  norm(result, layer.norm);
  return result;
}

void Planner::unit(const MobileLayer& layer) {
  this->layer(branch(layer), nonlinearity_of(layer.activation));
}

/// Scales the channels of the last node.
void Planner::squeeze(const std::string& path, std::int64_t hidden) {
  const Node from = plan_.nodes.back();
  const std::int64_t channels = from.channels;
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
    const std::size_t weight = tensor(path + name + ".weight", {out, in, 1, 1});
    tensor(path + name + ".bias", {out});
    return weight;
  };
  const std::size_t narrow = linear(".fc1", channels, hidden);
  plan_.nodes.push_back({.kind = NodeKind::scaled,
                         .height = from.height,
                         .width = from.width,
                         .channels = from.channels,
                         .input = last_node(),
                         .squeeze = plan_.squeezes.size()});
  plan_.squeezes.push_back({.narrow = narrow,
                            .widen = linear(".fc2", hidden, channels),
                            .channels = static_cast<std::size_t>(channels),
                            .hidden = static_cast<std::size_t>(hidden)});
}

void Planner::add(const MobilePlan& net) {
  plan_.norm_share = net.norm_share;
  plan_.norm_epsilon = net.norm_epsilon;
  image(pictures_);
  unit(net.stem);
  for (std::size_t i = 0; i < net.blocks.size(); ++i) {
    const MobileBlock& block = net.blocks[i];
    const int input = last_node();
    if (block.widen) unit(*block.widen);
    unit(block.filter);
    if (block.squeezed > 0) squeeze(block.squeeze, block.squeezed);
    const int main = branch(block.narrow);
    plan_.branches.back().drop = block.drop;
    plan_.branches.back().drop_number = static_cast<std::uint32_t>(i + 1);  // 0 is the classifier's
    if (block.adds)
      layer(main, Nonlinearity::none, Residual::identity, input);
    else
      layer(main, Nonlinearity::none);
  }
  unit(net.last);
  std::int64_t channels = net.last.out;
  if (!net.hidden.empty()) {
    plan_.hidden = dense(net.hidden, channels, net.hidden_width);
    plan_.hidden_nonlinearity = Nonlinearity::hard_swish;
    channels = net.hidden_width;
  }
  plan_.last = dense(net.classifier, channels, options_.outputs);
  plan_.last.dropout = kMobileDropout;
  plan_.head_start = net.of_timm ? HeadStart::timm : HeadStart::torchvision;
}

/// Normalizations without a trained parameter keep their running values, if the options say so.
void Planner::keep_statistics() {
  if (options_.frozen_norms == FrozenNorms::batch) return;
  bool keeps = false;
  for (Branch& branch : plan_.branches) {
    branch.keeps_statistics = branch.norm && plan_.groups == 0 && !plan_.trains_norm(branch);
    keeps = keeps || branch.keeps_statistics;
  }
  check_keeps_statistics(keeps);
}

/// @pre earlier nodes are in plan_.learns
bool Planner::learns(const Node& node) const {
  const auto branch_learns = [&](int b) {
    const Branch& branch = plan_.branch(b);
    return plan_.passes_errors(branch) || plan_.trains_norm(branch);
  };
  switch (node.kind) {
    case NodeKind::image:
      return plan_.whitening && plan_.trains(plan_.whitening->bias);
    case NodeKind::max_pool:
      return plan_.learns_at(node.input);
    case NodeKind::scaled: {
      const SqueezePlan& squeeze = plan_.squeezes[node.squeeze];
      return plan_.learns_at(node.input) || plan_.trains(squeeze.narrow) ||
             plan_.trains(squeeze.narrow + 1) || plan_.trains(squeeze.widen) ||
             plan_.trains(squeeze.widen + 1);
    }
    case NodeKind::layer:
      break;
  }
  if (branch_learns(node.main)) return true;
  if (node.residual == Residual::none) return false;
  return node.residual == Residual::branch ? branch_learns(node.second)
                                           : plan_.learns_at(node.second);
}

Plan Planner::finish() {
  plan_.split(options_.freeze, untrained_);
  keep_statistics();
  for (const Node& node : plan_.nodes) plan_.learns.push_back(learns(node));
  plan_.readers.resize(plan_.nodes.size());
  const auto read_by = [&](int node) -> Readers& {
    return plan_.readers[static_cast<std::size_t>(node)];
  };
  for (std::size_t b = 0; b < plan_.branches.size(); ++b)
    read_by(plan_.branches[b].input).branches.push_back(static_cast<int>(b));
  for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i) {
    const Node& node = plan_.node(i);
    if (node.has_input()) read_by(node.input).nodes.push_back(i);
    if (node.kind != NodeKind::layer) continue;
    plan_.branches[static_cast<std::size_t>(node.main)].node = i;
    if (node.residual == Residual::branch)
      plan_.branches[static_cast<std::size_t>(node.second)].node = i;
    else if (node.residual != Residual::none)
      read_by(node.second).nodes.push_back(i);
  }
  return std::move(plan_);
}

/// The linear layer that the slice belongs to; null: none.
const Dense* dense_of(const Plan& plan, std::size_t slice) {
  const auto has = [&](const Dense& dense) { return dense.weight == slice || dense.bias == slice; };
  if (has(plan.last)) return &plan.last;
  return plan.hidden && has(*plan.hidden) ? &*plan.hidden : nullptr;
}

void fill(const TensorSlice& slice, std::string_view zeros, std::span<float> values) {
  std::ranges::fill(values, slice.name.ends_with(zeros) ? 0.0f : 1.0f);
}

/// Makes the first channels of a convolution copies of its input's: their middle pixels.
void pass_on(const int8::ConvolutionShape& shape, std::span<float> weights) {
  const auto inputs = static_cast<std::size_t>(shape.in_channels);
  const auto taps = static_cast<std::size_t>(shape.kernel * shape.kernel);
  const std::size_t row = taps * inputs;
  const std::size_t channels = std::min(inputs, weights.size() / row);
  std::ranges::fill(weights.first(channels * row), 0.0f);
  for (std::size_t c = 0; c < channels; ++c) weights[c * row + taps / 2 * inputs + c] = 1;
}

/// Divides by the standard deviation, of n - 1.
void standardize(std::span<float> values) {
  double mean = 0, squares = 0;
  for (const float value : values) mean += static_cast<double>(value);
  mean /= static_cast<double>(values.size());
  for (const float value : values)
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  const auto deviation =
      static_cast<float>(std::sqrt(squares / static_cast<double>(values.size() - 1)));
  for (float& value : values) value /= deviation;
}

/// Draws a linear layer once more, if it does not start as PyTorch's do.
void start_head(const Plan& plan, const Dense& dense, Twister& random, const TensorValues& start) {
  if (plan.head_start == HeadStart::linear) return;
  const std::span<float> weights = start.of(plan, dense.weight);
  if (plan.head_start == HeadStart::airbench) standardize(weights);
  if (plan.head_start == HeadStart::torchvision) draw_normal(random, 0.01, weights);
  if (plan.head_start == HeadStart::timm) draw_uniform(random, dense.out, weights);
  std::ranges::fill(start.of(plan, dense.bias), 0.0f);
}

/// timm counts the fan-out of a depthwise filter by itself, torchvision that of all of them.
bool has_own_fan_out(const Plan& plan, std::size_t tensor) {
  const auto branch = std::ranges::find(plan.branches, tensor, &Branch::weight);
  return plan.head_start == HeadStart::timm && branch != plan.branches.end() &&
         branch->shape.depthwise;
}

/// Refuses what our own executor cannot compute. @param what  "expected ..., found ..."
[[noreturn]] void refuse(const ModelOptions& options, const std::string& what) {
  if (options.precision == Precision::int8)
    fail(Kind::usage, "model.precision int8: {}; set model.precision to fp32", what);
  fail(Kind::usage, "this build has no LibTorch: {}; use a build with LibTorch", what);
}

}  // namespace

void check_for_own(const ModelOptions& options) {
  const Entry<TaskRow> task = options.task.kind;
  if (task != tasks::classification && task != tasks::multi_label && task != tasks::regression)
    refuse(options,
           fmt::format("expected task.kind classification, multi-label or regression, found \"{}\"",
                       task->name));
}

Plan make_plan(const ModelOptions& options) {
  check_for_own(options);
  Planner planner(options);
  if (const auto resnet = resnet_plan(options)) {
    planner.add(*resnet);
  } else if (const auto plain = plain_plan(options)) {
    planner.add(*plain);
  } else if (options.model->whitens) {
    planner.add(airbench_plan(options));
  } else if (const auto mobile = mobile_plan(options)) {
    planner.add(*mobile);
  } else {
    refuse(options, fmt::format("expected a network for pictures, found model.name \"{}\"",
                                options.model->name));
  }
  Plan plan = planner.finish();
  for (const Branch& branch : plan.branches)
    if (const std::size_t pixels = branch.shape.out_count() / branch.channels();
        options.precision == Precision::int8 && pixels > int8::kMostProducts)
      refuse(options,
             fmt::format("expected layers of at most {} pixels, whose sums fit 32 bits, found "
                         "{} of {}; lower data.image_size",
                         int8::kMostProducts, branch.name, pixels));
  return plan;
}

void Plan::count_batch(std::span<std::uint64_t> counts) const {
  if (counts.empty()) return;
  for (const Branch& branch : branches)
    if (branch.norm && !branch.keeps_statistics) ++counts[branch.statistics / 2];
}

TensorValues initial_values(const Plan& plan, std::uint64_t seed) {
  TensorValues start(plan);
  for (const TensorSlice& slice : plan.buffers)
    fill(slice, ".running_mean", start.buffers.span().subspan(slice.offset, slice.count));
  Twister random(static_cast<std::uint32_t>(seed));
  std::vector<float> row_major;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const TensorSlice& slice = plan.tensors[i];
    const std::span<float> values = start.of(plan, i);
    if (slice.shape.size() == 4) {
      row_major.resize(slice.count);
      const std::int64_t filters = has_own_fan_out(plan, i) ? 1 : slice.shape[0];
      const auto fan_out = static_cast<double>(filters * slice.shape[2] * slice.shape[3]);
      draw_normal(random, std::sqrt(2 / fan_out), row_major);
      reorder(row_major, slice.shape, values);
    } else if (const Dense* const dense = dense_of(plan, i)) {
      draw_uniform(random, dense->in, values);
      if (i == dense->bias) start_head(plan, *dense, random, start);
    } else {
      fill(slice, ".bias", values);
    }
  }
  for (const Branch& branch : plan.branches)
    if (branch.passes_on) pass_on(branch.shape, start.of(plan, branch.weight));
  return start;
}

}  // namespace eqt::model::precision
