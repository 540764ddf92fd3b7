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

enum class ExportFormat : std::uint8_t { torchscript, onnx, safetensors, state_dict };
std::span<const Named<ExportFormat>> names_of(ExportFormat);

/// The name of the description of a network's input in a TorchScript archive.
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";

struct Export {
  ExportFormat format = ExportFormat::torchscript;
  std::string weights;        // file that Replica::load_weights() takes
  std::string preprocessing;  // JSON that says what the network expects of its input
  std::string out;
};

/// The formats that need no LibTorch: reads the weights into `network`, which is that of the
/// options, and writes them, for ONNX with its operations.
/// @throws as export_network()
void export_without_torch(Replica& network, const ModelOptions& options, const Export& request);

/// Writes the network of `options` with the weights of a file. All but state dicts carry the
/// preprocessing: TorchScript archives as the extra file kPreprocessingFile, the others as the
/// metadata "preprocessing". Networks as TorchScript and ONNX take the same inputs, pictures as
/// (n, c, h, w) and without the frame.
/// @throws Error{usage} for options that no network takes, for TorchScript in a build without
/// LibTorch, and for ONNX of a network of the user's own; Error{data} for weights of another
/// network, for one that LibTorch cannot trace, and for ONNX in a build without its library;
/// Error{output}
void export_network(const ModelOptions& options, const Export& request);

}  // namespace eqt::model
