// SPDX-License-Identifier: Apache-2.0
#include "model/graph/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.hpp"
#include "data/images.hpp"

namespace eqt::model {
namespace {

double count_of(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

/// Returns the side of what square windows make of a picture [pixels].
std::int64_t output_side(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding) {
  EQT_CHECK(side + 2 * padding >= kernel, "windows of {} for {} pixels", kernel, side);
  return (side + 2 * padding - kernel) / stride + 1;
}

/// The sizes and then those of `more`.
Sizes joined(Sizes sizes, std::span<const std::int64_t> more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

}  // namespace

GraphValue Graph::input(const data::ArraySpec& spec) {
  inputs_.push_back(spec);
  if (const auto image = data::image_shape(spec))
    return {spec.name, {image->channels, image->height, image->width}};
  Sizes sizes = spec.shape;
  for (std::int64_t& size : sizes)
    if (size < 0) size = spec.longest;
  return {spec.name, sizes};
}

std::string Graph::add(std::string_view operation, std::vector<std::string> inputs,
                       std::vector<GraphAttribute> attributes, std::string name) {
  if (name.empty()) name = fmt::format("{}_{}", operation, nodes_.size());
  nodes_.push_back({operation, std::move(inputs), {name}, std::move(attributes)});
  return name;
}

std::vector<std::string> Graph::add_several(std::string_view operation,
                                            std::vector<std::string> inputs,
                                            std::vector<GraphAttribute> attributes,
                                            std::size_t results) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < results; ++i)
    names.push_back(fmt::format("{}_{}_{}", operation, nodes_.size(), i));
  nodes_.push_back({operation, std::move(inputs), names, std::move(attributes)});
  return names;
}

std::string Graph::parameter(const std::string& name, Sizes sizes) {
  const auto known = std::ranges::find(parameters_, name, &GraphParameter::name);
  if (known == parameters_.end())
    parameters_.push_back({name, std::move(sizes)});
  else
    EQT_CHECK(known->sizes == sizes, "{} has two shapes", name);
  return name;
}

std::string Graph::by_channel(const std::string& name, std::int64_t channels) {
  return add("Unsqueeze", {parameter(name, {channels}), indices({1, 2})});
}

std::string Graph::constant(Sizes sizes, std::variant<std::vector<float>, Sizes> values) {
  for (const GraphConstant& known : constants_)
    if (known.sizes == sizes && known.values == values) return known.name;
  constants_.push_back(
      {fmt::format("Constant_{}", constants_.size()), std::move(sizes), std::move(values)});
  return constants_.back().name;
}

std::string Graph::number(float value) { return constant({}, std::vector<float>{value}); }
std::string Graph::index(std::int64_t value) { return constant({}, Sizes{value}); }
std::string Graph::indices(const Sizes& values) {
  return constant({static_cast<std::int64_t>(values.size())}, values);
}
std::string Graph::floats(const std::vector<float>& values) {
  return constant({static_cast<std::int64_t>(values.size())}, values);
}

GraphValue Graph::apply(std::string_view operation, const GraphValue& x,
                        std::vector<GraphAttribute> attributes) {
  return {add(operation, {x.name}, std::move(attributes)), x.sizes};
}

GraphValue Graph::combine(std::string_view operation, const GraphValue& x,
                          const std::string& other) {
  return {add(operation, {x.name, other}), x.sizes};
}

GraphValue Graph::convolution(const GraphValue& x, const std::string& path,
                              const GraphConvolution& shape) {
  const std::int64_t channels = x.sizes[0];
  const std::int64_t groups = shape.depthwise ? channels : 1;
  const Sizes filters = {shape.out, channels / groups, shape.kernel, shape.kernel};
  std::vector<std::string> inputs = {x.name, parameter(path + ".weight", filters)};
  if (shape.bias) inputs.push_back(parameter(path + ".bias", {shape.out}));
  const auto side = [&](std::size_t i) {
    return output_side(x.sizes[i], shape.kernel, shape.stride, shape.padding);
  };
  const GraphValue y = {add("Conv", std::move(inputs),
                            {{"kernel_shape", Sizes{shape.kernel, shape.kernel}},
                             {"strides", Sizes{shape.stride, shape.stride}},
                             {"pads", Sizes(4, shape.padding)},
                             {"group", groups}},
                            path),
                        {shape.out, side(1), side(2)}};
  multiply_adds_ += count_of(filters) * count_of(std::span(y.sizes).last(2));
  return y;
}

GraphValue Graph::linear(const GraphValue& x, const std::string& path, std::int64_t out) {
  return linear(x, path + ".weight", path + ".bias", out);
}

GraphValue Graph::linear(const GraphValue& x, const std::string& weight, const std::string& bias,
                         std::int64_t out) {
  const std::string matrix = parameter(weight, {out, x.sizes.back()});
  const std::string shift = parameter(bias, {out});
  multiply_adds_ += count_of(x.sizes) * static_cast<double>(out);
  if (x.sizes.size() == 1)
    return {add("Gemm", {x.name, matrix, shift}, {{"transB", std::int64_t{1}}}), {out}};
  const std::string turned = add("Transpose", {matrix}, {{"perm", Sizes{1, 0}}});
  GraphValue y = {add("MatMul", {x.name, turned}), x.sizes};
  y.sizes.back() = out;
  return combine("Add", y, shift);
}

GraphValue Graph::layer_norm(const GraphValue& x, const std::string& path, double epsilon) {
  const std::int64_t width = x.sizes.back();
  return {add("LayerNormalization",
              {x.name, parameter(path + ".weight", {width}), parameter(path + ".bias", {width})},
              {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(epsilon)}}, path),
          x.sizes};
}

GraphValue Graph::max_pool(const GraphValue& x, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding) {
  const auto side = [&](std::size_t i) { return output_side(x.sizes[i], kernel, stride, padding); };
  return {add("MaxPool", {x.name},
              {{"kernel_shape", Sizes{kernel, kernel}},
               {"strides", Sizes{stride, stride}},
               {"pads", Sizes(4, padding)}}),
          {x.sizes[0], side(1), side(2)}};
}

GraphValue Graph::mean_pixels(const GraphValue& x) {
  return {add("GlobalAveragePool", {x.name}), {x.sizes[0], 1, 1}};
}

GraphValue Graph::max_pixels(const GraphValue& x) {
  return {add("GlobalMaxPool", {x.name}), {x.sizes[0], 1, 1}};
}

GraphValue Graph::pad(const GraphValue& x, const Sizes& before, const Sizes& after) {
  const Sizes of_samples = {0};
  const Sizes pads = joined(joined(joined(of_samples, before), of_samples), after);
  GraphValue y = {add("Pad", {x.name, indices(pads)}), x.sizes};
  for (std::size_t i = 0; i < y.sizes.size(); ++i) y.sizes[i] += before[i] + after[i];
  return y;
}

GraphValue Graph::flatten(const GraphValue& x) {
  return {add("Flatten", {x.name}), {static_cast<std::int64_t>(count_of(x.sizes))}};
}

GraphValue Graph::reshape(const GraphValue& x, Sizes sizes) {
  GraphValue y = {add("Reshape", {x.name, indices(joined({0}, sizes))}), std::move(sizes)};
  for (std::size_t i = 0; i < y.sizes.size(); ++i)
    if (y.sizes[i] == 0) y.sizes[i] = x.sizes[i];
  EQT_CHECK(count_of(y.sizes) == count_of(x.sizes), "{} values become {}", count_of(x.sizes),
            count_of(y.sizes));
  return y;
}

GraphValue Graph::transpose(const GraphValue& x, Sizes order) {
  Sizes sizes;
  for (const std::int64_t from : order)
    if (from > 0) sizes.push_back(x.sizes[static_cast<std::size_t>(from - 1)]);
  return {add("Transpose", {x.name}, {{"perm", std::move(order)}}), std::move(sizes)};
}

GraphValue Graph::product(const GraphValue& a, const GraphValue& b) {
  EQT_CHECK(a.sizes.size() >= 2 && a.sizes.back() == b.sizes[b.sizes.size() - 2],
            "rows of {} times columns of {}", a.sizes.back(), b.sizes[b.sizes.size() - 2]);
  GraphValue y = {add("MatMul", {a.name, b.name}), a.sizes};
  y.sizes.back() = b.sizes.back();
  multiply_adds_ += count_of(a.sizes) * static_cast<double>(b.sizes.back());
  return y;
}

GraphValue Graph::gelu(const GraphValue& x) {
  constexpr float kRootOfHalf = 0.70710678118654752f;
  const GraphValue error = apply("Erf", combine("Mul", x, number(kRootOfHalf)));
  const GraphValue twice_phi = combine("Add", error, number(1));
  return combine("Mul", combine("Mul", x, twice_phi.name), number(0.5f));
}

GraphValue Graph::select(const GraphValue& x, std::int64_t i) {
  return {add("Gather", {x.name, index(i)}, {{"axis", std::int64_t{1}}}),
          Sizes(x.sizes.begin() + 1, x.sizes.end())};
}

void Graph::output(const GraphValue& x, Sizes sizes) {
  constexpr auto kName = "output";
  output_ = {add("Identity", {x.name}, {}, kName), std::move(sizes)};
}

}  // namespace eqt::model
