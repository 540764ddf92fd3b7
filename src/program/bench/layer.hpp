// SPDX-License-Identifier: Apache-2.0
// One convolution with random operands and the results of its three passes, for `bench
// convolutions`.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/onednn.hpp"
#include "core/flat_buffer.hpp"
#include "int8/convolution.hpp"
#include "model/own/float_convolution.hpp"

namespace eqt::bench {

inline constexpr std::array kPasses = {Pass::forward, Pass::backward_input, Pass::weight_gradient};

class Layer {
 public:
  /// Operands use all 8 bits, but for those of x with `small`, which are in [0, 127]: then no sum
  /// of two products leaves 16 bits, in which AVX2 without VNNI has them.
  /// @param scales  (N), of the samples and of their errors; weights have the scale 1
  Layer(const int8::ConvolutionShape& shape, int8::Kernels kernels, std::vector<float> scales,
        bool small = false);

  void run(Pass pass);
  const std::vector<float>& result(Pass pass) const { return results_[index(pass)]; }
  LayerIntegers integers() const { return {x_, error_, weights_}; }

 private:
  static std::size_t index(Pass pass) { return static_cast<std::size_t>(pass); }

  int8::Convolution convolution_;
  std::vector<float> scales_;
  std::vector<std::int8_t> x_, error_, weights_;
  std::array<std::vector<float>, kPasses.size()> results_;
  std::size_t scratch_bytes_;
  LongArray<std::byte> scratch_;
};

/// Computes the same passes of the same operands in float32.
class FloatLayer {
 public:
  FloatLayer(const int8::ConvolutionShape& shape, int samples, const LayerIntegers& integers);

  void run(Pass pass);
  const std::vector<float>& result(Pass pass) const { return results_[index(pass)]; }

 private:
  static std::size_t index(Pass pass) { return static_cast<std::size_t>(pass); }

  model::precision::FloatConvolution convolution_;
  std::vector<float> ones_;  // (N)
  std::vector<float> x_, error_;
  std::array<std::vector<float>, kPasses.size()> results_;
  std::size_t scratch_bytes_;
  LongArray<std::byte> scratch_;
};

/// "32 x 32 16 -> 32, 3 / 2": image, channels, kernel, stride.
std::string describe(const int8::ConvolutionShape& shape);

/// @throws Error{bug} if `kernels` give another result than plain loops, or float32 one that
/// rounding does not explain
void require_plain_results(const int8::ConvolutionShape& shape, int8::Kernels kernels);

/// @throws Error{bug} if a pass of oneDNN gives other integers than `kernels` do, or floats that
/// rounding does not explain
void require_same_results(const int8::ConvolutionShape& shape, int8::Kernels kernels,
                          OneDnn& onednn);

}  // namespace eqt::bench
