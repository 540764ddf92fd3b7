// SPDX-License-Identifier: Apache-2.0
// Files of ONNX, read back by its library: the checker, shapes inferred anew, and the weights.
// onnx_outputs.py compares what the files compute.

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1

#include "model/graph/onnx_file.hpp"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <cstring>
#include <string>
#include <vector>

#include "data/text/text_input.hpp"
#include "model/graph/network_graph.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

/// Numbers that differ, by the names of a graph's parameters.
class SomeWeights {
 public:
  explicit SomeWeights(const Graph& graph) {
    values_.reserve(graph.parameters().size());
    float next = 0.5f;
    for (const GraphParameter& parameter : graph.parameters()) {
      auto& values = values_.emplace_back(weights::elements_of(parameter.sizes));
      for (float& value : values) value = next += 0.25f;
      tensors_.push_back({.name = parameter.name,
                          .type = weights::ElementType::float32,
                          .sizes = parameter.sizes,
                          .strides = weights::row_major_strides(parameter.sizes),
                          .storage = std::as_bytes(std::span(values))});
    }
  }
  std::span<const weights::Tensor> tensors() const { return tensors_; }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<weights::Tensor> tensors_;
};

/// "N,10" of the result, found again from the operations alone; "?" is a length that depends on the
/// input.
std::string inferred_result(onnx::ModelProto model) {
  model.mutable_graph()->clear_value_info();
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(true, 1, true));
  std::string text;
  for (const auto& dimension : model.graph().output(0).type().tensor_type().shape().dim()) {
    if (!text.empty()) text += ',';
    if (dimension.dim_param() == "N")
      text += 'N';
    else
      text += dimension.has_dim_value() ? std::to_string(dimension.dim_value()) : "?";
  }
  return text;
}

/// Writes a file with weights, reads it back and checks all but the shape of its result, which it
/// returns.
std::string checked_file(const ModelOptions& options) {
  const Graph graph = network_graph(options).value();
  const SomeWeights weights(graph);
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(
      onnx_bytes(graph, "net", weights.tensors(), {{"preprocessing", "{}"}})));
  CHECK_NOTHROW(onnx::checker::check_model(model));
  REQUIRE(model.opset_import_size() == 1);
  CHECK(model.opset_import(0).version() == 17);
  REQUIRE(model.metadata_props_size() == 1);
  CHECK(model.metadata_props(0).key() == "preprocessing");
  CHECK(model.graph().input_size() == static_cast<int>(options.inputs.size()));
  const auto expected = weights.tensors();
  REQUIRE(model.graph().initializer_size() == static_cast<int>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const onnx::TensorProto& found = model.graph().initializer(static_cast<int>(i));
    CAPTURE(found.name());
    CHECK(found.name() == expected[i].name);
    CHECK(found.data_type() == onnx::TensorProto::FLOAT);
    CHECK(std::equal(found.dims().begin(), found.dims().end(), expected[i].sizes.begin(),
                     expected[i].sizes.end()));
    REQUIRE(found.raw_data().size() == expected[i].storage.size());
    CHECK(std::memcmp(found.raw_data().data(), expected[i].storage.data(),
                      expected[i].storage.size()) == 0);
  }
  return inferred_result(model);
}

ModelOptions text_options(EncoderFamily family, bool masked) {
  std::vector<data::ArraySpec> inputs;
  for (const std::string_view name : {data::kTokens, data::kMask})
    if (masked || name == data::kTokens)
      inputs.push_back({.name = std::string(name),
                        .type = data::ElementType::int64,
                        .shape = {-1},
                        .longest = 12,
                        .bound = 30});
  return {.model = models::bert,
          .inputs = inputs,
          .target = data::class_spec(3),
          .outputs = 3,
          .encoder = EncoderShape{.family = family,
                                  .segments = family == EncoderFamily::bert ? 2 : 0,
                                  .layers = 2,
                                  .hidden = 8,
                                  .heads = 2}};
}

}  // namespace

TEST_CASE("every network becomes a file that ONNX's library accepts", "[onnx]") {
  for (const Entry<ModelRow> model : ModelRow::all()) {
    if (!model->images_only) continue;
    CAPTURE(model->name);
    CHECK(checked_file({.model = model, .inputs = test::pictures({3, 32, 32}), .outputs = 7}) ==
          "N,7");
  }
}

TEST_CASE("every normalization layer becomes a part of such a file", "[onnx]") {
  for (const Entry<NormalizationRow> normalization : NormalizationRow::all()) {
    for (const ModelRow* const model :
         {&models::resnet20, &models::vgg11, &models::airbench_small, &models::mobilenet_v2}) {
      const bool is_linear =
          normalization->groups == 2 || normalization == normalizations::batchnorm;
      if (model->linear_bottlenecks && !is_linear) continue;
      CAPTURE(normalization->name, model->name);
      ModelOptions options = {
          .model = *model, .inputs = test::pictures({3, 32, 32}), .normalization = normalization};
      // The groups of the others have too few values on the last images.
      if (normalization->needs_chunks && model != &models::resnet20) continue;
      CHECK(checked_file(options) == "N,10");
    }
  }
}

TEST_CASE("shortcuts, frames and large pictures become parts of such a file", "[onnx]") {
  CHECK(checked_file({.model = models::resnet20,
                      .inputs = test::pictures({1, 28, 28}),
                      .shortcut = Shortcut::padding}) == "N,10");
  CHECK(checked_file({.model = models::resnet18, .inputs = test::pictures({3, 97, 65})}) == "N,10");
  CHECK(checked_file({.model = models::mobilenet_v3_small,
                      .inputs = test::pictures({3, 97, 65}),
                      .width = 0.5}) == "N,10");
  CHECK(checked_file({.model = models::vit_tiny, .inputs = test::pictures({3, 96, 80})}) == "N,10");
}

TEST_CASE("encoders become files that take texts of any length", "[onnx]") {
  for (const EncoderFamily family : {EncoderFamily::bert, EncoderFamily::distilbert}) {
    for (const bool masked : {true, false}) {
      CAPTURE(masked);
      ModelOptions options = text_options(family, masked);
      CHECK(checked_file(options) == "N,3");
      options.task.kind = tasks::language_model;
      options.target = options.inputs.front();
      options.outputs = 30;
      CHECK(checked_file(options) == "N,?,30");
    }
  }
}

TEST_CASE("weights of another shape are an error of this program", "[onnx]") {
  const ModelOptions options = {.model = models::resnet20, .inputs = test::pictures({3, 32, 32})};
  const Graph graph = network_graph(options).value();
  const SomeWeights others(
      network_graph({.model = models::alexnet, .inputs = test::pictures({3, 32, 32})}).value());
  test::says(
      test::refusal(Kind::bug, [&] { (void)onnx_bytes(graph, "net", others.tensors(), {}); }),
      "conv1.weight");
}

}  // namespace eqt::model
