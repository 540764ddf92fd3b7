// SPDX-License-Identifier: Apache-2.0
// Our 8-bit and float32 convolutions in turn with oneDNN's, on one thread:
//
//   onednn_convolutions [KERNELS] [SECONDS of each pass] [MODEL]
//
// The layers are those of the model for pictures of 32 x 32 pixels, or kLayerShapes. LibTorch
// computes them by oneDNN.
// Before time is taken, oneDNN's results are compared with ours. Ends with 1 if they differ.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/layer.hpp"
#include "bench/onednn.hpp"
#include "core/error.hpp"
#include "int8/convolution.hpp"

namespace {

using namespace eqt;
using namespace eqt::bench;

constexpr int kSamples = 8;  // of a call
constexpr Operands kOperands[] = {Operands::int8, Operands::bf16, Operands::f32};
constexpr const char* kOperandNames[] = {"int8", "bf16", "f32"};

int8::Kernels named(const std::string& name) {
  for (const int8::Kernels kernels : int8::available())
    if (name == name_of(kernels)) return kernels;
  fail(Kind::usage, "expected kernels that this processor has, found {}", name);
}

/// A line for something that was timed in turn with ours; x: how many times as fast ours are.
void print_line(const char* pass, const std::string& name, double gmac_s, double ours) {
  fmt::print("  {:<8} {:<42} {:>7.1f} {:>5.2f}x\n", pass, name, gmac_s, ours / gmac_s);
}

void measure(const int8::ConvolutionShape& shape, Layer& layer, Pass pass, OneDnn& onednn,
             double limit) {
  FloatLayer floats(shape, kSamples, layer.integers());
  std::vector<std::function<void()>> works = {[&] { layer.run(pass); }, [&] { floats.run(pass); }};
  std::vector<std::string> names = {"ours, int8", "ours, f32"};
  std::vector<std::unique_ptr<OneDnnPass>> others;
  for (std::size_t i = 0; i < std::size(kOperands); ++i) {
    auto other = onednn.pass(shape, kSamples, pass, kOperands[i], layer.integers());
    if (!other) continue;
    works.push_back([run = other.get()] { run->run(); });
    names.push_back(fmt::format("oneDNN {} ({})", kOperandNames[i], other->implementation()));
    others.push_back(std::move(other));
  }
  const std::vector<double> seconds = median_seconds_in_turn(works, limit);
  const double macs = 1e-9 * static_cast<double>(shape.macs()) * kSamples;
  for (std::size_t i = 0; i < works.size(); ++i)
    print_line(title_of(pass), names[i], macs / seconds[i], macs / seconds[0]);
}

void compare(int8::Kernels kernels, double seconds, const std::string& model) {
  const std::unique_ptr<OneDnn> onednn = make_onednn(kernels);
  fmt::print(
      "{} beside oneDNN {} with {}: 1e9 multiply-adds a second, those with the frame's zeros\n"
      "included, which oneDNN leaves out; medians, {} samples a call, one thread; x: how many "
      "times\n"
      "as fast our 8-bit convolutions are. oneDNN has the fastest of its layouts and algorithms;\n"
      "without VNNI its 8-bit sums may saturate at 16 bits.\n",
      name_of(kernels), onednn->version(), onednn->instructions(), kSamples);
  std::vector<float> scales;
  for (int n = 0; n < kSamples; ++n) scales.push_back(1e-3f * static_cast<float>(n + 1));
  for (const int8::ConvolutionShape& shape : layer_shapes(model)) {
    require_same_results(shape, kernels, *onednn);
    Layer layer(shape, kernels, scales);
    fmt::print("{}\n", describe(shape));
    for (const Pass pass : kPasses) measure(shape, layer, pass, *onednn, seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    compare(argc > 1 ? named(argv[1]) : int8::fastest_here(), argc > 2 ? std::stod(argv[2]) : 0.1,
            argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "onednn_convolutions: {}\n", error.what());
    return 1;
  }
  return 0;
}
