// SPDX-License-Identifier: Apache-2.0
// oneDNN's convolutions, to compare ours with. They are in a shared object of their own, which is
// loaded when they are asked for: the program neither needs oneDNN nor takes memory for it, and a
// LibTorch that brings a oneDNN of another version keeps it.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "int8/convolution.hpp"

namespace eqt::bench {

enum class Pass { forward, backward_input, weight_gradient };
enum class Operands { int8, bf16, f32 };

/// The integers that all passes of a layer are computed from.
struct LayerIntegers {
  std::span<const std::int8_t> x;        // (N, H, W, C); the operand is this + 128
  std::span<const std::int8_t> error;    // (N, H', W', O)
  std::span<const std::int8_t> weights;  // (O, kh, kw, C)
};

/// One pass of one layer with operands in the layout that it reads, ready to run on this thread.
class OneDnnPass {
 public:
  virtual ~OneDnnPass() = default;
  virtual void run() = 0;
  /// Returns what the last run computed, in the layout of int8::Convolution's result; scales are 1.
  virtual std::vector<float> result() const = 0;
  /// oneDNN's name of the implementation.
  virtual std::string implementation() const = 0;
};

class OneDnn {
 public:
  virtual ~OneDnn() = default;
  virtual std::string version() const = 0;       // "2.6.3"
  virtual std::string instructions() const = 0;  // oneDNN's name of the set that it may use

  /// The fastest of its layouts and algorithms. Null where oneDNN has no such pass: 8-bit weight
  /// gradients; bf16 without instructions for it; 8-bit errors of inputs without
  /// AVX-512's VNNI, since oneDNN may then halve weights.
  virtual std::unique_ptr<OneDnnPass> pass(const int8::ConvolutionShape& shape, int samples,
                                           Pass pass, Operands operands,
                                           const LayerIntegers& integers) = 0;
};

/// oneDNN on one thread: with AVX2 or AVX-VNNI like `kernels`, else with all instructions of the
/// processor. Only the first call of a process chooses them.
/// @return null if the program was built without oneDNN, or if it is no longer there
std::unique_ptr<OneDnn> load_onednn(int8::Kernels kernels);

/// The name in the shared object of what makes a OneDnn. @param isa  as ONEDNN_MAX_CPU_ISA has it
inline constexpr const char* kOneDnnEntry = "eqt_make_onednn";
using MakeOneDnn = OneDnn* (*)(const char* isa);

}  // namespace eqt::bench
