// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/bench.hpp"
#include "bench/layer.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "int8/convolution.hpp"

namespace eqt::bench {
namespace {

using int8::ConvolutionShape;
using int8::Kernels;

/// The fastest of the calls in `seconds`, by the time of this thread: what others take of a core
/// only makes them slower. @return [1e9 multiply-adds / s]
double peak_of(Kernels kernels, double seconds) {
  constexpr std::size_t kRepetitions = 50000;
  const auto macs = static_cast<double>(int8::repeat_product(kernels, kRepetitions));
  double best = 0;
  const Stopwatch total;
  do {
    const WorkStopwatch watch;
    int8::repeat_product(kernels, kRepetitions);
    best = std::max(best, macs / watch.seconds() * 1e-9);
  } while (total.seconds() < seconds);
  return best;
}

std::vector<Kernels> chosen(const std::vector<std::string>& names) {
  std::vector<Kernels> all = int8::available();
  all.pop_back();  // scalar
  std::vector<Kernels> kernels;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, [](Kernels k) { return name_of(k); });
    if (found == all.end()) {
      std::string here;
      for (const Kernels k : all) here += fmt::format("{}{}", here.empty() ? "" : ", ", name_of(k));
      fail(Kind::usage, "--kernels: expected one of {}, which this processor has, found {}",
           here.empty() ? "none" : here, name);
    }
    kernels.push_back(*found);
  }
  return names.empty() ? all : kernels;
}

/// One pass: 1e9 multiply-adds a second.
struct Speeds {
  double ours = 0, float32 = 0;  // with 8-bit operands and with floats
};

struct Row {
  ConvolutionShape shape;
  Kernels kernels;
  int samples;
  double peak;
  Speeds passes[kPasses.size()];
};

Speeds measure(Layer& layer, Pass pass, const BenchConvolutionsCommand& command,
               const ConvolutionShape& shape) {
  FloatLayer floats(shape, command.samples, layer.integers());
  const std::function<void()> works[] = {[&] { layer.run(pass); }, [&] { floats.run(pass); }};
  const std::vector<double> seconds = median_seconds_in_turn(works, command.seconds);
  const double macs = 1e-9 * static_cast<double>(shape.macs()) * command.samples;
  return {.ours = macs / seconds[0], .float32 = macs / seconds[1]};
}

Row measure(const ConvolutionShape& shape, Kernels kernels,
            const BenchConvolutionsCommand& command) {
  std::vector<float> scales;
  for (int n = 0; n < command.samples; ++n) scales.push_back(1e-3f * static_cast<float>(n + 1));
  Layer layer(shape, kernels, scales);
  Row row{.shape = shape,
          .kernels = kernels,
          .samples = command.samples,
          .peak = peak_of(kernels, command.seconds),
          .passes = {}};
  for (std::size_t i = 0; i < kPasses.size(); ++i)
    row.passes[i] = measure(layer, kPasses[i], command, shape);
  return row;
}

void print_json(const Row& row) {
  const nlohmann::ordered_json line = {{"kernels", name_of(row.kernels)},
                                       {"height", row.shape.height},
                                       {"width", row.shape.width},
                                       {"in_channels", row.shape.in_channels},
                                       {"out_channels", row.shape.out_channels},
                                       {"kernel", row.shape.kernel},
                                       {"stride", row.shape.stride},
                                       {"samples", row.samples},
                                       {"forward_gmac_s", row.passes[0].ours},
                                       {"dx_gmac_s", row.passes[1].ours},
                                       {"dw_gmac_s", row.passes[2].ours},
                                       {"forward_f32_gmac_s", row.passes[0].float32},
                                       {"dx_f32_gmac_s", row.passes[1].float32},
                                       {"dw_f32_gmac_s", row.passes[2].float32},
                                       {"peak_gmac_s", row.peak}};
  fmt::print("{}\n", line.dump());
}

void print_head(int samples) {
  fmt::print(
      "8-bit convolutions, {} samples a call, one thread. GMAC/s: 1e9 multiply-adds a second,\n"
      "those with the frame's zeros included, medians; share: of the instruction repeated on\n"
      "registers. Below each row what was timed in turn with it; x: how many times as fast the\n"
      "8-bit convolutions are.\n",
      samples);
  fmt::print("\n{:<12} {:<26} {:>7} {:>5}  {:>7} {:>5}  {:>7} {:>5}  {:>7}\n", "kernels",
             "image, channels, kernel", "forward", "share", "dX", "share", "dW", "share", "peak");
}

void print_row(const Row& row) {
  fmt::print("{:<12} {:<26}", name_of(row.kernels), describe(row.shape));
  for (const Speeds& speeds : row.passes)
    fmt::print(" {:>7.1f} {:>4.0f}% ", speeds.ours, 100 * speeds.ours / row.peak);
  fmt::print(" {:>7.1f}\n", row.peak);
}

/// A line for the float32 convolutions, which were timed in turn with the row above.
void print_beside(const Row& row) {
  std::string line = fmt::format("{:<12} {:<26}", "", "  ours, f32");
  for (const Speeds& speeds : row.passes)
    line += fmt::format(" {:>7.1f} {:>4.2f}x ", speeds.float32, speeds.ours / speeds.float32);
  fmt::print("{}\n", line);
}

}  // namespace

void run_bench_convolutions(const BenchConvolutionsCommand& command) {
  const std::vector<Kernels> all = chosen(command.kernels);
  const std::vector<ConvolutionShape> shapes = layer_shapes(command.model);
  if (all.empty()) return;
  if (!command.json) print_head(command.samples);
  for (const Kernels kernels : all) {
    for (const ConvolutionShape& shape : shapes) {
      require_plain_results(shape, kernels);
      const Row row = measure(shape, kernels, command);
      command.json ? print_json(row) : print_row(row);
      if (!command.json) print_beside(row);
      std::fflush(stdout);
    }
  }
}

}  // namespace eqt::bench
