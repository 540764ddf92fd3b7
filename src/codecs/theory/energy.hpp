// SPDX-License-Identifier: Apache-2.0
// Energy of arithmetic and memory access in training and inference, by counting operations, and the
// published energy and memory to be compared with computed values.
//
// Source   costs: M. Horowitz, "Computing's energy problem", ISSCC 2014 (45 nm); counts: S. A.
//          Aketi, S. Kodge, K. Roy, "Low precision decentralized distributed training over IID and
//          non-IID data", Neural Networks 155 (2022), section 5, with corrections
//          (docs/theory.md); published: its table 10, CHOCO-SGD in float32 and in 8 bits, batches
//          of 32
// Symbols  b images of a batch; Ci, Co channels; K kernel; L side of the input, O of the output

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "theory/network_shape.hpp"

namespace eqt::theory {

/// One operation or access [pJ].
struct OperationCosts {
  double add32 = 0.9, mul32 = 3.7;  // float32
  double mul16 = 1.1;               // float16; bfloat16 has a shorter significand
  double add8 = 0.03, mul8 = 0.2;   // int8
  double add_int32 = 0.1;           // accumulates products of int8
  // DRAM: 640 for 32 bits, fewer bits in proportion
  double access32 = 640, access16 = 320, access8 = 160;
};

enum class Phase { training, inference };
/// The normalisation layers that can be counted: range batch norm with ReLU, and range EvoNorm.
enum class RangeNorm { batch, evo };
enum class Precision { float32, bfloat16, int8 };

/// Additions and multiplications.
struct Operations {
  double adds = 0, muls = 0;
  Operations& operator+=(const Operations& other);
};

/// Multiply-adds by the type of their operands. Products of int8 are added up in int32, all others
/// in float32.
struct MultiplyAdds {
  double float32 = 0, bfloat16 = 0, int8 = 0;
  double total() const { return float32 + bfloat16 + int8; }
};
/// [J]
double energy_of(const MultiplyAdds& products, const OperationCosts& costs = {});

/// Counts of one batch, by purpose.
struct OperationCounts {
  Operations forward, input_gradient, weight_gradient;  // of convolutions and linear layers
  Operations normalisation, quantisation, skip_and_pool, update;
};

/// The accounting says how operations are counted.
enum class Accounting {
  physical,  // O = (L + 2P - K) / S + 1, all layers
  // O is replaced by L + (L - 3) / S + 1, without linear layers, skips or pools: a fit that
  // reproduces the table's energies but has no physical meaning
  paper
};

OperationCounts count_operations(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                                 Precision precision, Accounting accounting);

/// Multiply-adds of convolutions and linear layers as step_energy() counts them.
MultiplyAdds step_products(const NetworkShape& shape, int batch, Phase phase, Precision precision);

/// The table's energy of one batch [J]: every operation costs as much as float32's, or as int8's.
/// @pre precision is not bfloat16, which the table lacks
double paper_energy(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                    Precision precision, Accounting accounting);

/// The energy of a real step in low precision [J]. Products of int8 are added in int32. Weight
/// gradients are float32 (the gradient is bifurcated: backward through activations is int8, that of
/// weights is not), and so are normalisation and the update; quantising reads float32. With
/// bfloat16 all products are of bfloat16 and added up in float32, the rest is float32. Memory: in
/// each pass every layer reads its input and weights from DRAM and writes its output once; caches
/// would lower that.
struct StepEnergy {
  double forward = 0, backward = 0, normalisation = 0, quantisation = 0, other = 0, update = 0;
  double memory = 0;
  double arithmetic() const {
    return forward + backward + normalisation + quantisation + other + update;
  }
  double total() const { return arithmetic() + memory; }
};
StepEnergy step_energy(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                       Precision precision, const OperationCosts& costs = {});

struct PublishedCost {
  Phase phase;
  std::string_view model;  // as in configs
  RangeNorm norm;
  double memory, memory_int8;  // [MiB]
  double energy, energy_int8;  // [mJ]
};
std::span<const PublishedCost> published_costs();

inline constexpr int kPublishedEnergyBatch = 32;

/// @param model "resnet20", "resnet54" or "vgg11"
NetworkShape shape_of(std::string_view model);
/// The network whose operations the table counts for `model`: for resnet54 one of 110 layers,
/// although its memory is that of 50 layers.
NetworkShape paper_energy_shape(std::string_view model);

}  // namespace eqt::theory
