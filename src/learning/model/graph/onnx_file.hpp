// SPDX-License-Identifier: Apache-2.0
// Graphs as files of ONNX, for runtimes on phones and boards. No header of ONNX's library, nor any
// that has the system's macros, of which some are names in ONNX's.
//
// Source   ONNX, IR.md and onnx.proto: IR version 8 of the files

#pragma once

#include <map>
#include <span>
#include <string>

#include "model/graph/graph.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {

/// The bytes of a file, after the checker and the shape inference of ONNX's library have passed.
/// The number of samples is the dimension N, the texts' length L. The weights are initializers
/// under their own names, constants are nodes, and all shapes are stated.
/// @param name of the graph
/// @param weights with all parameters of the graph; others are left out
/// @throws Error{data} in a build without ONNX's library, Error{usage} for more than 2 GiB
std::string onnx_bytes(const Graph& graph, const std::string& name,
                       std::span<const weights::Tensor> weights,
                       const std::map<std::string, std::string>& metadata);

}  // namespace eqt::model
