// SPDX-License-Identifier: Apache-2.0
// Networks as files for other programs, through the torch-free interface. Every TorchScript archive
// is loaded again and compared with its network before it is written.

#include "model/export.hpp"

#include <filesystem>

#include "model/unit/support.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

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
