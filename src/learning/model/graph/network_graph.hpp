// SPDX-License-Identifier: Apache-2.0
// The graphs of the networks of models.def, from the plans of architecture.hpp. No torch.

#pragma once

#include <optional>
#include <string>

#include "model/architecture.hpp"
#include "model/graph/graph.hpp"
#include "model/norm_kernels.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// Returns what the network of the options computes in evaluation mode; none for a network of the
/// user's own. Its inputs are those of the options, pictures as (c, h, w) and without the frame,
/// which the graph adds. Its result is what a TorchScript archive returns.
/// @throws Error{usage} for an input or options that the network cannot take
std::optional<Graph> network_graph(const ModelOptions& options);

/// How a network normalizes.
struct GraphNorm {
  Entry<NormalizationRow> kind = normalizations::batchnorm;
  int groups = 0;                 // of channels; 0 = as published
  double epsilon = kNormEpsilon;  // of batch normalization; other layers keep theirs

  bool replaces_activation() const;
  /// @param path of the layer
  GraphValue operator()(Graph& graph, const GraphValue& x, const std::string& path) const;
  /// ReLU follows, unless the layer replaces it.
  GraphValue relu(Graph& graph, const GraphValue& x, const std::string& path) const;
};

// These add what follows the input, up to the network's result.

GraphValue add_resnet(Graph& graph, const GraphValue& x, const ResNetPlan& plan,
                      const ModelOptions& options);
GraphValue add_plain(Graph& graph, const GraphValue& x, const PlainPlan& plan,
                     const ModelOptions& options);
GraphValue add_airbench(Graph& graph, const GraphValue& x, const AirbenchPlan& plan,
                        const ModelOptions& options);
GraphValue add_mobile(Graph& graph, const GraphValue& x, const MobilePlan& plan,
                      const ModelOptions& options);
GraphValue add_vit(Graph& graph, const GraphValue& x, const VitPlan& plan,
                   const ModelOptions& options);

// These add the inputs as well, and declare the result.

void add_mlp(Graph& graph, const ModelOptions& options);
void add_encoder(Graph& graph, const EncoderPlan& plan, const ModelOptions& options);

}  // namespace eqt::model
