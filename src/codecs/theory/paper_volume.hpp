// SPDX-License-Identifier: Apache-2.0
// The bytes that a node sends as the tables of low-precision decentralised training count them.
//
// Source   S. A. Aketi, S. Kodge, K. Roy, "Low precision decentralized distributed training over
//          IID and non-IID data", Neural Networks 155 (2022), table 3, and the authors' program
// Differs from what is sent: one out-edge for any degree, no headers, 16-bit indices even for
//          tensors of more than 65,536 values, 8 bits counted where float32 is sent, and no final
//          rounds. It reproduces all rows of that table but one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/layout.hpp"

namespace eqt::theory {

/// K = sum over tensors of max(1, int(n * (1 - share left out))). `density` is 1 minus that share,
/// in double precision both times: 0.1 becomes 1 - 0.9, which is slightly less.
std::uint64_t paper_kept_values(const Layout& layout, double density);

/// Returns the bytes of one node in one step: 4 (P + 1) for P parameters and push-sum's weight;
/// with a density 6 K + 3 for K values of 4 bytes with indices of 2 [bytes].
std::uint64_t paper_bytes_per_step(const Layout& layout, std::optional<double> density);

/// Steps of an epoch; the last batch may be smaller.
/// @pre ranks > 0, batch_size > 0
std::uint64_t paper_steps_per_epoch(std::size_t samples, std::size_t ranks, std::size_t batch_size);

inline constexpr double kGigabyte = 1e9;

/// A row of the table, CIFAR-10, EvoNorm-S0, 200 epochs of batches of 32 a node.
struct PublishedVolume {
  std::string_view model;
  std::string_view graph;
  std::size_t ranks;
  std::size_t edges;              // out of a node
  std::optional<double> density;  // none: float32
  std::uint64_t steps_per_epoch;
  double gigabytes;       // as printed
  double gigabytes_int8;  // as printed: always a quarter of the above
  std::string_view note;
};
std::span<const PublishedVolume> published_volumes();
inline constexpr std::size_t kPublishedSamples = 50000, kPublishedBatch = 32;
inline constexpr std::uint64_t kPublishedEpochs = 200;

}  // namespace eqt::theory
