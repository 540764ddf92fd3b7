// SPDX-License-Identifier: Apache-2.0
// This program's networks and its runs take these of a machine, beside what theory counts: bytes of
// a training step and multiply-adds, with each model.precision.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyze/analyze.hpp"
#include "model/replica.hpp"
#include "theory/energy.hpp"

namespace eqt::analyze {

/// The network for CIFAR-10's pictures and classes, as theory::shape_of() describes it.
/// @param model, normalization as in configs
model::ModelOptions measured_network(std::string_view model, std::string_view normalization,
                                     model::Precision precision);

/// Bytes of one rank.
struct StepBytes {
  std::uint64_t step = 0;  // at the peak of a training step, beside the members below: activations,
                           // errors, weights in low precision, scratch memory
  std::uint64_t arena = 0, saved = 0;  // int8: as in Int8Use
  std::uint64_t parameters = 0;        // float32
  std::uint64_t buffers = 0;           // running statistics
  std::uint64_t message = 0;           // a step's gradient, encoded by `compressor`
  std::string_view compressor;         // none, bf16 or int8, by the network's precision
};

/// Builds the network, and runs it on small batches unless it computes in 8 bits
/// (model::measure_network_memory()).
/// @throws Error{usage} as model::make_replica()
StepBytes measure_step(const model::ModelOptions& options, std::size_t batch_size);

/// Multiply-adds of convolutions and linear layers in a training step, by the layers of the
/// program's network: there is no gradient of the pictures, and the classifier is float32.
/// @pre the network is one that is built with 8-bit operands
theory::MultiplyAdds count_products(const model::ModelOptions& options, std::size_t batch_size);

/// Shows bytes of published networks with each model.precision, modelled and as measure_step()
/// measures them.
void run_measured_memory(const AnalyzeMemoryCommand& command);
/// Shows multiply-adds of the same networks, modelled and as count_products() counts them.
void run_measured_energy(const AnalyzeEnergyCommand& command);

/// Shows what the runs below command.runs wrote down, beside what is modelled.
/// @throws Error{usage}, Error{data} as report::run_folders() and report::read_run()
void run_memory_of_runs(const AnalyzeMemoryCommand& command);

}  // namespace eqt::analyze
