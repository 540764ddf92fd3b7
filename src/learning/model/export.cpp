// SPDX-License-Identifier: Apache-2.0
#include "model/export.hpp"

#include <array>

#include "core/error.hpp"
#include "core/version.hpp"

namespace eqt::model {
namespace {

constexpr std::array<Named<ExportFormat>, 3> kFormats = {{
    {ExportFormat::torchscript, "torchscript", "the network with its weights, for torch.jit.load"},
    {ExportFormat::safetensors, "safetensors", "the weights by their names"},
    {ExportFormat::state_dict, "state-dict", "the weights by their names, for torch.load"},
}};

}  // namespace

std::span<const Named<ExportFormat>> names_of(ExportFormat) { return kFormats; }

void export_weights(Replica& network, const Export& request) {
  EQT_CHECK(request.format != ExportFormat::torchscript, "an archive of weights");
  network.load_weights(request.weights);
  if (request.format == ExportFormat::state_dict) return network.save_weights(request.out);
  network.save_safetensors(request.out, {{"format", "pt"},
                                         {"producer", "equant-train " + std::string(version())},
                                         {"preprocessing", request.preprocessing}});
}

}  // namespace eqt::model
