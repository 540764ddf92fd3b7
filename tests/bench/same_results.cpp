// SPDX-License-Identifier: Apache-2.0
// Compares another library's convolutions with ours, whatever the library.

#include "bench/onednn.hpp"
#include "core/error.hpp"

namespace eqt::bench {
namespace {

/// Returns the tolerance as a part of the largest value: rounding of operands, products or sums
/// stays below it, a mistake does not.
double tolerance_of(Operands operands) {
  if (operands == Operands::int8) return 0;
  return operands == Operands::bf16 ? 1e-2 : kFloatTolerance;
}

}  // namespace

void require_same_results(const int8::ConvolutionShape& shape, int8::Kernels kernels,
                          OneDnn& onednn) {
  Layer layer(shape, kernels, {1, 1}, true);
  for (const Pass pass : kPasses) {
    layer.run(pass);
    for (const Operands operands : {Operands::int8, Operands::bf16, Operands::f32}) {
      const auto other = onednn.pass(shape, 2, pass, operands, layer.integers());
      if (!other) continue;
      other->run();
      if (!near(layer.result(pass), other->result(), tolerance_of(operands)))
        fail(Kind::bug,
             "convolution {} with {}: expected {} as oneDNN's {} gives it, found another",
             describe(shape), name_of(kernels), title_of(pass), other->implementation());
    }
  }
}

}  // namespace eqt::bench
