// SPDX-License-Identifier: Apache-2.0
// oneDNN's convolutions, to compare ours with. A benchmark alone links oneDNN; the program does
// not.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/layer.hpp"
#include "int8/convolution.hpp"

namespace eqt::bench {

enum class Operands { int8, bf16, f32 };

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
std::unique_ptr<OneDnn> make_onednn(int8::Kernels kernels);

/// @throws Error{bug} if a pass of oneDNN gives other integers than `kernels` do, or floats that
/// rounding does not explain
void require_same_results(const int8::ConvolutionShape& shape, int8::Kernels kernels,
                          OneDnn& onednn);

}  // namespace eqt::bench
