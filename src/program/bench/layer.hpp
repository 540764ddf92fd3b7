// SPDX-License-Identifier: Apache-2.0
// Convolutions with random operands for `bench convolutions`: the results of their three passes,
// checked, and times of several pieces of work in turn.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/flat_buffer.hpp"
#include "int8/convolution.hpp"
#include "model/own/float_convolution.hpp"

namespace eqt::bench {

enum class Pass { forward, backward_input, weight_gradient };

inline constexpr std::array kPasses = {Pass::forward, Pass::backward_input, Pass::weight_gradient};
/// "forward", "dX", "dW".
const char* title_of(Pass pass);

/// Layers of ResNet-20 and ResNet-18: image, channels in and out, kernel, stride.
inline constexpr int8::ConvolutionShape kLayerShapes[] = {
    {32, 32, 3, 16, 3, 1},   {32, 32, 16, 16, 3, 1},  {32, 32, 16, 32, 3, 2},
    {32, 32, 16, 32, 1, 2},  {16, 16, 32, 32, 3, 1},  {16, 16, 32, 64, 3, 2},
    {8, 8, 64, 64, 3, 1},    {32, 32, 3, 64, 3, 1},   {32, 32, 64, 64, 3, 1},
    {32, 32, 64, 128, 3, 2}, {32, 32, 64, 128, 1, 2}, {16, 16, 128, 128, 3, 1},
    {8, 8, 256, 256, 3, 1},  {4, 4, 512, 512, 3, 1},
};

/// Returns the convolutions, or matrix products, of a network for pictures of 32 x 32 pixels, each
/// shape once; without a name kLayerShapes.
/// @throws Error{usage} for a network that has none
std::vector<int8::ConvolutionShape> layer_shapes(const std::string& model);

/// The integers that all passes of a layer are computed from.
struct LayerIntegers {
  std::span<const std::int8_t> x;        // (N, H, W, C); the operand is this + 128
  std::span<const std::int8_t> error;    // (N, H', W', O)
  std::span<const std::int8_t> weights;  // (O, kh, kw, C)
};

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

/// Rounding of float32 operands and sums stays below this part of the largest value; a mistake does
/// not.
inline constexpr double kFloatTolerance = 1e-4;

/// Returns true if no value differs by more than `tolerance` times the largest of `a`.
bool near(std::span<const float> a, std::span<const float> b, double tolerance);

/// Medians of the seconds of a call, by the processor time of this thread. In every turn each work
/// is called for a millisecond (less where `seconds` is little), one work after the other.
/// @param seconds  for each work; at least three turns are taken
std::vector<double> median_seconds_in_turn(std::span<const std::function<void()>> works,
                                           double seconds);

}  // namespace eqt::bench
