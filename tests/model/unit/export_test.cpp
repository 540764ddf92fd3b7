// SPDX-License-Identifier: Apache-2.0
// Networks as files for other programs, through the torch-free interface. Every TorchScript archive
// is loaded again and compared with its network before it is written.

#include "model/export.hpp"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/graph/network_graph.hpp"
#include "model/unit/support.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {
namespace {

/// Trains one batch, so that running statistics are not those of the start, and exports.
void export_trained(const ModelOptions& options, data::ImageShape shape, ExportFormat format,
                    const std::string& folder) {
  const auto replica = make_replica(options);
  replica->forward_backward(random_batch(16, shape), {});
  replica->save_weights(folder + "/model.pt");
  export_network(options, {.format = format,
                           .weights = folder + "/model.pt",
                           .preprocessing = "{}",
                           .out = folder + "/out"});
}

TEST_CASE("every normalization layer can be traced", "[export]") {
  const test::TemporaryFolder folder;
  for (const Entry<NormalizationRow> normalization : NormalizationRow::all()) {
    INFO(normalization->name);
    const ModelOptions options = {.model = models::resnet20,
                                  .inputs = test::pictures({3, 32, 32}),
                                  .normalization = normalization};
    CHECK_NOTHROW(export_trained(options, {3, 32, 32}, ExportFormat::torchscript, folder.path()));
  }
}

TEST_CASE("networks with a frame, a padding shortcut, bottlenecks or dropout can be traced",
          "[export]") {
  const test::TemporaryFolder folder;
  const auto traced = [&](ModelOptions options, data::ImageShape shape) {
    options.inputs = test::pictures(shape);
    export_trained(options, shape, ExportFormat::torchscript, folder.path());
  };
  CHECK_NOTHROW(traced({.model = models::resnet20, .inputs = {}, .shortcut = Shortcut::padding},
                       {1, 28, 28}));
  CHECK_NOTHROW(traced({.model = models::resnet50, .inputs = {}}, {3, 32, 32}));
  CHECK_NOTHROW(traced({.model = models::vgg11, .inputs = {}}, {3, 32, 32}));
  CHECK_NOTHROW(traced({.model = models::alexnet, .inputs = {}}, {3, 32, 32}));
}

TEST_CASE("a state dict and safetensors are read again", "[export]") {
  const test::TemporaryFolder folder;
  const ModelOptions options = {.model = models::resnet20, .inputs = test::pictures({3, 32, 32})};
  for (const ExportFormat format : {ExportFormat::state_dict, ExportFormat::safetensors}) {
    export_trained(options, {3, 32, 32}, format, folder.path());
    const auto trained = make_replica(options), read = make_replica(options);
    trained->load_weights(folder.path() + "/model.pt");
    read->load_weights(folder.path() + "/out");
    CHECK(std::ranges::equal(trained->parameters(), read->parameters()));
    CHECK(std::ranges::equal(trained->buffers(), read->buffers()));
  }
}

TEST_CASE("graphs read every float of a network's state, by its name and shape", "[export]") {
  std::vector<ModelOptions> all;
  for (const Entry<ModelRow> model : ModelRow::all())
    if (model->images_only) all.push_back({.model = model, .inputs = test::pictures({3, 32, 32})});
  for (const Entry<NormalizationRow> normalization : NormalizationRow::all())
    all.push_back({.model = models::resnet20,
                   .inputs = test::pictures({3, 32, 32}),
                   .normalization = normalization});
  for (const EncoderFamily family : {EncoderFamily::bert, EncoderFamily::distilbert})
    for (const bool next_token : {false, true}) {
      const data::ArraySpec tokens = {.name = "tokens",
                                      .type = data::ElementType::int64,
                                      .shape = {-1},
                                      .longest = 8,
                                      .bound = 20};
      all.push_back({.model = models::bert,
                     .inputs = {tokens},
                     .outputs = next_token ? 20 : 10,
                     .encoder = EncoderShape{.family = family,
                                             .segments = family == EncoderFamily::bert ? 2 : 0,
                                             .layers = 2,
                                             .hidden = 8,
                                             .heads = 2}});
      if (!next_token) continue;
      all.back().task.kind = tasks::language_model;
      all.back().target = tokens;
    }
  for (const ModelOptions& options : all) {
    CAPTURE(options.model->name, options.normalization->name);
    const std::string packed = make_replica(options)->safetensors({});
    const auto bytes = std::as_bytes(std::span(packed));
    const weights::StateDict state({bytes.begin(), bytes.end()}, "the network");
    std::map<std::string, std::vector<std::int64_t>> expected, found;
    for (const weights::Tensor& tensor : state.tensors())
      if (tensor.type == weights::ElementType::float32) expected.emplace(tensor.name, tensor.sizes);
    const Graph graph = network_graph(options).value();
    for (const GraphParameter& parameter : graph.parameters())
      found.emplace(parameter.name, parameter.sizes);
    CHECK(found == expected);
  }
}

TEST_CASE("nothing is written of weights that are another network's", "[export]") {
  const test::TemporaryFolder folder;
  const ModelOptions options = {.model = models::resnet20, .inputs = test::pictures({3, 32, 32})};
  make_replica(options)->save_weights(folder.path() + "/model.pt");
  ModelOptions other = options;
  other.model = models::resnet56;
  test::refusal(Kind::data, [&] {
    export_network(other, {.format = ExportFormat::torchscript,
                           .weights = folder.path() + "/model.pt",
                           .preprocessing = "{}",
                           .out = folder.path() + "/out"});
  });
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/out"));
}

}  // namespace
}  // namespace eqt::model
