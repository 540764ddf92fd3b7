// SPDX-License-Identifier: Apache-2.0
// This takes the place of onnx_file.cpp in a build without ONNX's library.

#include "core/error.hpp"
#include "model/graph/onnx_file.hpp"

namespace eqt::model {

std::string onnx_bytes(const Graph&, const std::string&, std::span<const weights::Tensor>,
                       const std::map<std::string, std::string>&) {
  fail(Kind::data,
       "export: expected a build with ONNX's library for --to onnx, found one without; install "
       "Debian's libonnx-dev and libprotobuf-dev and build again, or choose torchscript");
}

}  // namespace eqt::model
