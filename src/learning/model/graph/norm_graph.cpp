// SPDX-License-Identifier: Apache-2.0
// Normalization layers as graphs: evaluation mode alone.
//
// Source   those of torch/batch_norm.cpp, group_norm.cpp, evonorm.cpp and range_batch_norm.cpp

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "model/graph/network_graph.hpp"
#include "model/model_options.hpp"
#include "model/range_meter.hpp"

namespace eqt::model {
namespace {

constexpr auto kGraphEpsilon = static_cast<float>(kNormEpsilon);

std::int64_t count_of_pixels(const GraphValue& x) { return x.sizes[1] * x.sizes[2]; }

/// x * weight + bias, by channel.
GraphValue scaled(Graph& graph, const GraphValue& x, const std::string& path) {
  const std::int64_t channels = x.sizes[0];
  const GraphValue y = graph.combine("Mul", x, graph.by_channel(path + ".weight", channels));
  return graph.combine("Add", y, graph.by_channel(path + ".bias", channels));
}

GraphValue batch_norm(Graph& graph, const GraphValue& x, const std::string& path, double epsilon) {
  std::vector<std::string> inputs = {x.name};
  for (const char* const name : {".weight", ".bias", ".running_mean", ".running_var"})
    inputs.push_back(graph.parameter(path + name, {x.sizes[0]}));
  return {graph.add("BatchNormalization", std::move(inputs),
                    {{"epsilon", static_cast<float>(epsilon)}}, path),
          x.sizes};
}

/// Normalization of groups is that of instances whose channels are the groups.
GraphValue group_norm(Graph& graph, const GraphValue& x, const std::string& path,
                      std::int64_t groups) {
  const auto count = static_cast<std::size_t>(groups);
  const GraphValue by_group = graph.reshape(x, {groups, x.sizes[0] / groups * count_of_pixels(x)});
  const GraphValue y = {graph.add("InstanceNormalization",
                                  {by_group.name, graph.floats(std::vector<float>(count, 1.0f)),
                                   graph.floats(std::vector<float>(count, 0.0f))},
                                  {{"epsilon", kGraphEpsilon}}),
                        by_group.sizes};
  return scaled(graph, graph.reshape(y, x.sizes), path);
}

GraphValue range_batch_norm(Graph& graph, const GraphValue& x, const std::string& path) {
  const std::int64_t channels = x.sizes[0];
  const auto by_channel = [&](const char* name) { return graph.by_channel(path + name, channels); };
  const GraphValue centred = graph.combine("Sub", x, by_channel(".running_mean"));
  return scaled(graph, graph.combine("Mul", centred, by_channel(".running_inverse")), path);
}

/// Reduces the last dimension, which stays as one of size 1. @param operation such as "ReduceMean"
std::string reduced(Graph& graph, std::string_view operation, const std::string& x) {
  return graph.add(operation, {x}, {{"axes", Sizes{-1}}, {"keepdims", std::int64_t{1}}});
}

/// Returns what EvoNorm-S0 divides by, (groups, 1), of values (groups, m).
std::string deviation(Graph& graph, const GraphValue& by_group) {
  const GraphValue centred =
      graph.combine("Sub", by_group, reduced(graph, "ReduceMean", by_group.name));
  const GraphValue squares = graph.combine("Mul", centred, centred.name);
  const std::string variance = reduced(graph, "ReduceMean", squares.name);
  return graph.add("Sqrt", {graph.add("Add", {variance, graph.number(kGraphEpsilon)})});
}

/// Returns what Range-EvoNorm divides by, (groups, 1), of values (groups, m).
std::string range(Graph& graph, const GraphValue& by_group, const std::string& path) {
  const std::int64_t groups = by_group.sizes[0];
  constexpr auto kChunks = static_cast<std::int64_t>(kRangeChunks);
  const auto chunk = static_cast<std::int64_t>(
      chunk_values(static_cast<std::size_t>(by_group.sizes[1]), path, "the values of a group"));
  const GraphValue chunks = graph.reshape(by_group, {groups, kChunks, chunk});
  const std::string ranges = graph.add(
      "Sub", {reduced(graph, "ReduceMax", chunks.name), reduced(graph, "ReduceMin", chunks.name)});
  const GraphValue of_group = graph.reshape({ranges, {groups, kChunks, 1}}, {groups, kChunks});
  const std::string factor =
      graph.number(static_cast<float>(range_factor(static_cast<std::size_t>(chunk))));
  const std::string scaled_range =
      graph.add("Mul", {reduced(graph, "ReduceMean", of_group.name), factor});
  return graph.add("Add", {scaled_range, graph.number(kGraphEpsilon)});
}

GraphValue evonorm(Graph& graph, const GraphValue& x, const std::string& path, std::int64_t groups,
                   bool by_range) {
  const GraphValue z = graph.combine("Mul", x, graph.by_channel(path + ".v", x.sizes[0]));
  const GraphValue gate = by_range
                              ? graph.apply("HardSigmoid", z, {{"alpha", 1.0f / 6}, {"beta", 0.5f}})
                              : graph.apply("Sigmoid", z);
  const Sizes sizes = {groups, x.sizes[0] / groups * count_of_pixels(x)};
  const GraphValue by_group = graph.reshape(x, sizes);
  const std::string divisor = by_range ? range(graph, by_group, path) : deviation(graph, by_group);
  const GraphValue gated = graph.reshape(graph.combine("Mul", x, gate.name), sizes);
  return scaled(graph, graph.reshape(graph.combine("Div", gated, divisor), x.sizes), path);
}

}  // namespace

bool GraphNorm::replaces_activation() const {
  return kind == normalizations::evonorm_s0 || kind == normalizations::range_evonorm;
}

GraphValue GraphNorm::operator()(Graph& graph, const GraphValue& x, const std::string& path) const {
  const std::int64_t count = groups_for(*kind, groups, x.sizes[0]);
  if (kind == normalizations::batchnorm) return batch_norm(graph, x, path, epsilon);
  if (kind == normalizations::groupnorm) return group_norm(graph, x, path, count);
  if (kind == normalizations::evonorm_s0) return evonorm(graph, x, path, count, false);
  if (kind == normalizations::range_batchnorm) return range_batch_norm(graph, x, path);
  if (kind == normalizations::range_evonorm) return evonorm(graph, x, path, count, true);
  fail(Kind::bug, "normalization {} has no graph", kind->name);
}

GraphValue GraphNorm::relu(Graph& graph, const GraphValue& x, const std::string& path) const {
  const GraphValue y = (*this)(graph, x, path);
  return replaces_activation() ? y : graph.apply("Relu", y);
}

}  // namespace eqt::model
