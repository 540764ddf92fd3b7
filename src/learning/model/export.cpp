// SPDX-License-Identifier: Apache-2.0
#include "model/export.hpp"

#include <array>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/version.hpp"
#include "metrics/output_file.hpp"
#include "model/graph/network_graph.hpp"
#include "model/graph/onnx_file.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {
namespace {

constexpr std::array<Named<ExportFormat>, 4> kFormats = {{
    {ExportFormat::torchscript, "torchscript", "the network with its weights, for torch.jit.load"},
    {ExportFormat::onnx, "onnx", "the network with its weights, for runtimes of ONNX"},
    {ExportFormat::safetensors, "safetensors", "the weights by their names"},
    {ExportFormat::state_dict, "state-dict", "the weights by their names, for torch.load"},
}};

}  // namespace

std::span<const Named<ExportFormat>> names_of(ExportFormat) { return kFormats; }

void export_without_torch(Replica& network, const ModelOptions& options, const Export& request) {
  EQT_CHECK(request.format != ExportFormat::torchscript, "TorchScript without LibTorch");
  const bool with_operations = request.format == ExportFormat::onnx;
  const std::optional<Graph> graph = with_operations ? network_graph(options) : std::nullopt;
  if (with_operations && !graph)
    fail(Kind::usage,
         "export: expected a network of this program for --to onnx, found that of model.path {}; "
         "choose torchscript, or write it in Python by torch.onnx.export",
         options.path);
  network.load_weights(request.weights);
  if (request.format == ExportFormat::state_dict) return network.save_weights(request.out);
  Metadata metadata = {{"producer", "equant-train " + std::string(version())},
                       {"preprocessing", request.preprocessing}};
  if (!graph) {
    metadata["format"] = "pt";
    return metrics::write_atomically(request.out, network.safetensors(metadata));
  }
  const std::string packed = network.safetensors({});
  const auto bytes = std::as_bytes(std::span(packed));
  const weights::StateDict state({bytes.begin(), bytes.end()}, request.weights);
  metrics::write_atomically(
      request.out, onnx_bytes(*graph, std::string(options.model->name), state.tensors(), metadata));
}

}  // namespace eqt::model
