// SPDX-License-Identifier: Apache-2.0
// Published energy and memory, to be compared with computed values.
//
// Source   S. A. Aketi, S. Kodge, K. Roy, "Low precision decentralized distributed training over
//          IID and non-IID data", Neural Networks 155 (2022), table 10: CHOCO-SGD in float32 and in
//          8 bits, batches of 32

#pragma once

#include <span>
#include <string_view>

#include "theory/energy.hpp"

namespace eqt::theory {

struct PublishedCost {
  theory::Phase phase;
  std::string_view model;  // as in configs
  theory::RangeNorm norm;
  double memory, memory_int8;  // [MiB]
  double energy, energy_int8;  // [mJ]
};
std::span<const PublishedCost> published_costs();

inline constexpr int kPublishedEnergyBatch = 32;

/// @param model "resnet20", "resnet54" or "vgg11"
theory::NetworkShape shape_of(std::string_view model);
/// The network whose operations the table counts for `model`: for resnet54 one of 110 layers,
/// although its memory is that of 50 layers.
theory::NetworkShape paper_energy_shape(std::string_view model);

}  // namespace eqt::theory
