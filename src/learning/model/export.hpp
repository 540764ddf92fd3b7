// SPDX-License-Identifier: Apache-2.0
// A trained network as a file for other programs. No torch in this header.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/catalogue.hpp"
#include "model/replica.hpp"

namespace eqt::model {

enum class ExportFormat : std::uint8_t { torchscript, safetensors, state_dict };
std::span<const Named<ExportFormat>> names_of(ExportFormat);

/// The name of the description of a network's input in a TorchScript archive.
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";

struct Export {
  ExportFormat format = ExportFormat::torchscript;
  std::string weights;        // file that Replica::load_weights() takes
  std::string preprocessing;  // JSON that says what the network expects of its input
  std::string out;
};

/// The formats without the network's operations: reads the weights into `network`, and writes them.
/// @throws Error{data} for weights of another network, Error{output}
void export_weights(Replica& network, const Export& request);

/// Writes the network of `options` with the weights of a file. TorchScript archives and safetensors
/// carry the preprocessing: as the extra file kPreprocessingFile, and as the metadata
/// "preprocessing".
/// @throws Error{usage} for options that no network takes, and for TorchScript in a build without
/// LibTorch, Error{data} for weights of another
/// network and for one that LibTorch cannot trace, Error{output}
void export_network(const ModelOptions& options, const Export& request);

}  // namespace eqt::model
