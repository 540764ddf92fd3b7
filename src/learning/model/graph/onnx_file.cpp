// SPDX-License-Identifier: Apache-2.0
#define ONNX_NAMESPACE onnx
#define ONNX_ML 1

#include "model/graph/onnx_file.hpp"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>

#include "core/error.hpp"
#include "core/version.hpp"
#include "data/images.hpp"

namespace eqt::model {
namespace {

constexpr std::int64_t kFileVersion = 8;
constexpr auto kSamples = "N", kLength = "L";  // dimensions without a fixed size

std::int32_t element_type(data::ElementType type) {
  switch (type) {
    case data::ElementType::float32:
      return onnx::TensorProto::FLOAT;
    case data::ElementType::uint8:
      return onnx::TensorProto::UINT8;
    case data::ElementType::int64:
      return onnx::TensorProto::INT64;
  }
  fail(Kind::bug, "an array of type {}", static_cast<int>(type));
}

/// @param sizes of a sample; -1: the length of texts
void declare(const std::string& name, data::ElementType type, std::span<const std::int64_t> sizes,
             onnx::ValueInfoProto& value) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(element_type(type));
  tensor.mutable_shape()->add_dim()->set_dim_param(kSamples);
  for (const std::int64_t size : sizes) {
    auto& dimension = *tensor.mutable_shape()->add_dim();
    if (size < 0)
      dimension.set_dim_param(kLength);
    else
      dimension.set_dim_value(size);
  }
}

void set_values(std::span<const std::byte> bytes, std::int32_t type, const Sizes& sizes,
                onnx::TensorProto& tensor) {
  tensor.set_data_type(type);
  for (const std::int64_t size : sizes) tensor.add_dims(size);
  tensor.set_raw_data(bytes.data(), bytes.size());
}

/// A constant is a node, so that all initializers are weights.
void add_constant(const GraphConstant& constant, onnx::GraphProto& graph) {
  auto& node = *graph.add_node();
  node.set_op_type("Constant");
  node.set_name(constant.name);
  node.add_output(constant.name);
  auto& value = *node.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  if (const auto* const floats = std::get_if<std::vector<float>>(&constant.values))
    set_values(std::as_bytes(std::span(*floats)), onnx::TensorProto::FLOAT, constant.sizes,
               *value.mutable_t());
  else
    set_values(std::as_bytes(std::span(std::get<Sizes>(constant.values))), onnx::TensorProto::INT64,
               constant.sizes, *value.mutable_t());
}

void add_attribute(const GraphAttribute& attribute, onnx::NodeProto& node) {
  auto& proto = *node.add_attribute();
  proto.set_name(std::string(attribute.name));
  if (const auto* const number = std::get_if<std::int64_t>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(*number);
  } else if (const auto* const real = std::get_if<float>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(*real);
  } else {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : std::get<Sizes>(attribute.value)) proto.add_ints(value);
  }
}

void add_node(const GraphNode& operation, onnx::GraphProto& graph) {
  auto& node = *graph.add_node();
  node.set_op_type(std::string(operation.operation));
  node.set_name(operation.outputs.front());
  for (const std::string& input : operation.inputs) node.add_input(input);
  for (const std::string& output : operation.outputs) node.add_output(output);
  for (const GraphAttribute& attribute : operation.attributes) add_attribute(attribute, node);
}

void add_parameter(const GraphParameter& parameter, std::span<const weights::Tensor> weights,
                   onnx::GraphProto& graph) {
  const auto found = std::ranges::find(weights, parameter.name, &weights::Tensor::name);
  EQT_CHECK(found != weights.end() && found->sizes == parameter.sizes &&
                found->type == weights::ElementType::float32,
            "no weights of the graph's shape are called {}", parameter.name);
  std::vector<std::byte> values(weights::elements_of(found->sizes) *
                                weights::element_bytes(found->type));
  weights::copy_row_major(*found, values);
  auto& tensor = *graph.add_initializer();
  tensor.set_name(parameter.name);
  set_values(values, onnx::TensorProto::FLOAT, parameter.sizes, tensor);
}

void fill(const Graph& graph, std::span<const weights::Tensor> weights, onnx::GraphProto& proto) {
  for (const data::ArraySpec& spec : graph.inputs()) {
    const auto image = data::image_shape(spec);
    const Sizes sizes = image ? Sizes{image->channels, image->height, image->width} : spec.shape;
    declare(spec.name, spec.type, sizes, *proto.add_input());
  }
  declare(graph.output().name, data::ElementType::float32, graph.output().sizes,
          *proto.add_output());
  for (const GraphParameter& parameter : graph.parameters())
    add_parameter(parameter, weights, proto);
  for (const GraphConstant& constant : graph.constants()) add_constant(constant, proto);
  for (const GraphNode& operation : graph.nodes()) add_node(operation, proto);
}

/// States the shapes of all values, too.
void require_valid(onnx::ModelProto& model) {
  try {
    onnx::checker::check_model(model);
    onnx::shape_inference::InferShapes(
        model, onnx::OpSchemaRegistry::Instance(),
        onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict_mode=*/1, /*data_prop=*/true));
  } catch (const std::exception& error) {
    fail(Kind::bug, "ONNX's library refuses the graph of {}: {}", model.graph().name(),
         error.what());
  }
}

}  // namespace

std::string onnx_bytes(const Graph& graph, const std::string& name,
                       std::span<const weights::Tensor> weights,
                       const std::map<std::string, std::string>& metadata) {
  onnx::ModelProto model;
  model.set_ir_version(kFileVersion);
  model.set_producer_name("equant-train");
  model.set_producer_version(std::string(version()));
  auto& operators = *model.add_opset_import();
  operators.set_domain("");
  operators.set_version(kOperators);
  for (const auto& [key, text] : metadata) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(text);
  }
  model.mutable_graph()->set_name(name);
  fill(graph, weights, *model.mutable_graph());
  require_valid(model);
  // Protocol buffers count bytes with 31 bits.
  constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();
  if (const std::size_t bytes = model.ByteSizeLong(); bytes > kMostBytes)
    fail(Kind::usage,
         "export: expected a network of at most {} bytes for --to onnx, found one of {}; choose "
         "torchscript or safetensors",
         kMostBytes, bytes);
  return model.SerializeAsString();
}

}  // namespace eqt::model
