// SPDX-License-Identifier: Apache-2.0
// What networks compute, counted and named; onnx_file_test.cpp checks the operations.

#include "model/graph/network_graph.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "data/text/text_input.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

Graph graph_of(const ModelOptions& options) { return network_graph(options).value(); }

Graph published_graph(const ModelRow& model) { return graph_of(published_options(model)); }

std::vector<data::ArraySpec> texts_of(std::int64_t tokens, std::int64_t longest) {
  const auto spec = [&](std::string_view name, std::int64_t bound) {
    return data::ArraySpec{.name = std::string(name),
                           .type = data::ElementType::int64,
                           .shape = {-1},
                           .longest = longest,
                           .bound = bound};
  };
  return {spec(data::kTokens, tokens), spec(data::kMask, 2)};
}

}  // namespace

TEST_CASE("networks have the published multiply-adds", "[graph]") {
  // ResNets: torchvision's documentation, which lists them as GFLOPS. MobileNets: the papers (table
  // 4, 300 million; table 3, 56 million). Lite0: 407 million, of the authors' repository.
  // Transformers: 1.26 and 4.61, of Touvron et al.
  struct Published {
    const ModelRow& model;
    double giga, margin;
  };
  const Published published = GENERATE(values<Published>({
      {models::resnet18, 1.81, 0.005},
      {models::resnet34, 3.66, 0.005},
      {models::resnet50, 4.09, 0.005},
      {models::mobilenet_v2, 0.3, 0.01},
      {models::mobilenet_v3_small, 0.056, 0.02},
      {models::efficientnet_lite0, 0.407, 0.06},
      {models::vit_tiny, 1.26, 0.01},
      {models::vit_small, 4.61, 0.01},
  }));
  CAPTURE(published.model.name);
  CHECK(published_graph(published.model).multiply_adds() / 1e9 ==
        Approx(published.giga).epsilon(published.margin));
}

TEST_CASE("multiply-adds follow from the tables of the papers", "[graph]") {
  // ResNet-18: a stem of 7x7 filters on 112 x 112 pixels, and stages of four convolutions, of which
  // the first of a later stage has half the channels, and beside it a projection.
  const double stem = 64.0 * 3 * 49 * 112 * 112, first = 4 * 64.0 * 64 * 9 * 56 * 56;
  const double later = (3.5 * 9 + 0.5) * 128 * 128 * 28 * 28;  // the same in each later stage
  CHECK(published_graph(models::resnet18).multiply_adds() == stem + first + 3 * later + 512 * 1000);

  // ResNet-20: 3 x 6 convolutions, the first of two stages with half the channels, projections.
  const double stage = 16.0 * 16 * 9 * 32 * 32;
  CHECK(published_graph(models::resnet20).multiply_adds() ==
        3 * 16.0 * 9 * 32 * 32 + 6 * stage + 2 * (5.5 * stage + stage / 18) + 64 * 10);

  CHECK(published_graph(models::vgg11).multiply_adds() ==
        9 * (3 * 64.0 * 1024 + 64 * 128.0 * 256 + (128 * 256.0 + 256 * 256.0) * 64 +
             (256 * 512.0 + 512 * 512.0) * 16 + 2 * 512 * 512.0 * 4) +
            512 * 512 + 512 * 10);

  CHECK(published_graph(models::alexnet).multiply_adds() ==
        3 * 64 * 121.0 * 8 * 8 + 64 * 192 * 25.0 * 4 * 4 +
            9.0 * (192 * 384 + 384 * 256 + 256 * 256) * 2 * 2 + 256 * 10);

  // airbench: 24 filters of 2x2 pixels make 31 x 31; three times 3x3 filters, halving, 3x3 filters.
  CHECK(published_graph(models::airbench).multiply_adds() ==
        24 * 3 * 4.0 * 31 * 31 +
            9.0 * (24 * 64 * 31 * 31 + 64 * 64 * 15 * 15 + 64 * 256 * 15 * 15 + 256 * 256 * 7 * 7 +
                   256 * 256 * 7 * 7 + 256 * 256 * 3 * 3) +
            256 * 10);

  // An encoder: four maps of the hidden state, two of the wider layer, two products of attention.
  const double l = 12, h = 8, wide = 20, tokens = 30;
  ModelOptions options = {
      .model = models::bert,
      .inputs = texts_of(30, 12),
      .target = data::class_spec(3),
      .outputs = 3,
      .encoder = EncoderShape{.layers = 2, .hidden = 8, .heads = 2, .intermediate = 20}};
  const double layers = 2 * l * (4 * h * h + 2 * h * wide + 2 * l * h);
  CHECK(graph_of(options).multiply_adds() == layers + h * h + 3 * h);
  options.task.kind = tasks::language_model;
  options.target = texts_of(30, 12)[0];
  options.outputs = 30;
  CHECK(graph_of(options).multiply_adds() == layers + l * h * tokens);
}

TEST_CASE("a smaller picture gets the network's frame", "[graph]") {
  ModelOptions small = published_options(models::resnet20);
  small.inputs = test::pictures({1, 28, 28});
  ModelOptions framed = small;
  framed.inputs = test::pictures({1, 32, 32});
  CHECK(graph_of(small).multiply_adds() == graph_of(framed).multiply_adds());
  CHECK(graph_of(small).nodes().front().operation == "Pad");
  CHECK(graph_of(framed).nodes().front().operation == "Conv");
}

TEST_CASE("a network of the user's own has no graph", "[graph]") {
  CHECK_FALSE(network_graph({.model = models::torchscript, .inputs = test::pictures({3, 32, 32})}));
}

TEST_CASE("a layer by range needs groups that it can cut", "[graph]") {
  // 16 channels in 8 groups of 2 x 33 x 33 values, which 16 chunks do not divide.
  ModelOptions options = {.model = models::resnet20,
                          .inputs = test::pictures({3, 33, 33}),
                          .normalization = normalizations::range_evonorm};
  test::says(test::refusal(Kind::usage, [&] { (void)network_graph(options); }), "bn1");
}

}  // namespace eqt::model
