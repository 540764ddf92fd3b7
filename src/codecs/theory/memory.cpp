// SPDX-License-Identifier: Apache-2.0
#include "theory/memory.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::theory {
namespace {

constexpr double kFloatBytes = 4;

/// Rounded to two decimals, as in the paper.
double rounded(double mebibytes) { return std::round(100 * mebibytes) / 100; }

std::uint64_t values_of(const std::vector<Map>& maps) {
  std::uint64_t values = 0;
  for (const Map& map : maps) values += map.values();
  return values;
}

std::uint64_t input_values() {
  return std::uint64_t(kImageChannels) * std::uint64_t(kImageSize * kImageSize);
}

std::uint64_t linear_outputs(const NetworkShape& shape) {
  std::uint64_t values = static_cast<std::uint64_t>(shape.features);
  for (const Linear& l : shape.linears) values += static_cast<std::uint64_t>(l.out);
  return values;
}

std::uint64_t convolution_outputs(const NetworkShape& shape) {
  std::uint64_t values = 0;
  for (const Convolution& c : shape.convolutions) values += Map{c.out, c.output_size()}.values();
  return values;
}

/// One ReLU for each normalisation layer except those of shortcuts: after the norm itself or, for
/// the last one of a block, after the sum, which has the same shape.
std::uint64_t relu_values(const NetworkShape& shape) {
  std::uint64_t values = 0;
  for (std::size_t i = 0; i < shape.norms.size(); ++i)
    if (shape.convolutions[i].kernel != 1) values += shape.norms[i].values();
  return values;
}

/// The largest sum of a layer's input and output.
std::uint64_t largest_layer(const NetworkShape& shape) {
  std::uint64_t most = 0;
  for (const Convolution& c : shape.convolutions)
    most = std::max(most, Map{c.in, c.size}.values() + Map{c.out, c.output_size()}.values());
  return most;
}

/// Returns the bytes of an activation, or of a weight that layers compute with.
double value_bytes(Precision precision) {
  if (precision == Precision::int8) return 1;
  return precision == Precision::bfloat16 ? 2 : kFloatBytes;
}

}  // namespace

std::uint64_t layer_output_values(const NetworkShape& shape, RangeNorm norm) {
  return convolution_outputs(shape) + values_of(shape.norms) +
         (norm == RangeNorm::batch ? relu_values(shape) : 0) + values_of(shape.blocks) +
         values_of(shape.pooled) + linear_outputs(shape);
}

double paper_memory(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                    Precision precision) {
  EQT_CHECK(precision != Precision::bfloat16, "the table has no bfloat16");
  const bool low = precision == Precision::int8;
  const double parameters =
      rounded(kFloatBytes * static_cast<double>(shape.parameters) / kMebibyte);
  if (phase == Phase::inference) return low ? parameters / 4 : parameters;
  const double outputs = rounded(2 * kFloatBytes * batch *
                                 static_cast<double>(layer_output_values(shape, norm)) / kMebibyte);
  const double input =
      rounded(kFloatBytes * batch * static_cast<double>(input_values()) / kMebibyte);
  constexpr double kCopies = 5;
  return (outputs + input) / (low ? 4 : 1) + kCopies * parameters;
}

PeakMemory peak_memory(const NetworkShape& shape, int batch, Phase phase, Precision precision,
                       int copies) {
  const double bytes = value_bytes(precision);
  const bool low = precision != Precision::float32;
  const double flat = kFloatBytes * static_cast<double>(shape.parameters) / kMebibyte;
  const auto activations = [&](std::uint64_t values) {
    return bytes * batch * static_cast<double>(values) / kMebibyte;
  };
  PeakMemory memory;
  const std::uint64_t largest = largest_layer(shape);
  if (phase == Phase::inference) {
    memory.parameters = flat * bytes / kFloatBytes;
    memory.activations = activations(largest);
    return memory;
  }
  memory.parameters = flat + (low ? flat * bytes / kFloatBytes : 0);
  memory.gradient = memory.optimizer = flat;
  memory.algorithm = copies * flat;
  // The backward pass needs the inputs of convolutions and norms (ReLU works in place), and the
  // outputs of sums and pools.
  const std::uint64_t kept = input_values() + convolution_outputs(shape) + values_of(shape.norms) +
                             values_of(shape.blocks) + values_of(shape.pooled) +
                             linear_outputs(shape);
  memory.activations = activations(kept);
  memory.workspace = activations(largest);
  return memory;
}

}  // namespace eqt::theory
