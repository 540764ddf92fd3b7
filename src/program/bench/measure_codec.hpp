// SPDX-License-Identifier: Apache-2.0
// The costs and errors of a compressor on one thread: the measurements of `bench codecs`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::bench {

/// GB/s are bytes of float32 gradient per second of one thread, medians of many passes.
struct CodecFigures {
  double encode_gb_s = 0;
  double decode_add_gb_s = 0;
  double sum8_gb_s = 0;                   // eight messages decoded and added: 8 x 4 bytes a value
  std::optional<double> feedback_gb_s;    // compensate, encode and remember; lossy codecs only
  double bits_per_value = 0;              // 8 * payload bytes / values
  double variance = 0;                    // |decoded - values|^2 / |values|^2 of one message
  std::optional<double> variance_bound;   // Compressor::variance_bound
  std::optional<double> break_even_gbit;  // [Gbit/s] link on which encode + send + decode take as
                                          // long as sending float32; none if nothing is saved
  std::size_t rows = 0;                   // of the matrices that the values were cut into; 0: none
};

inline constexpr double kBenchDeviation = 1e-3;

/// `count` independent normal values with deviation kBenchDeviation, the same on every call.
FlatBuffer bench_gradient(std::size_t count);

/// Speed at which one thread reads `values` with the widest loads it has, nothing else [GB/s].
double read_gb_s(std::span<const float> values);

/// Checks the compressor's properties with plain loops: equal inputs give equal bytes; decoded
/// values are finite, and decode_add is linear in its scale; lossless ones return the values;
/// unbiased ones have the right mean over many seeds; the error keeps the bound, for random ones on
/// average.
/// @throws Error{bug} that names `name`, what was expected and what was found
void verify_codec(const std::string& name, const codec::Compressor& compressor,
                  std::span<const float> values);

/// @pre verify_codec passed; values.size() >= 1
CodecFigures measure_codec(const codec::Compressor& compressor, std::span<const float> values);

}  // namespace eqt::bench
