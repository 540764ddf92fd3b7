// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.hpp"
#include "bench/layer.hpp"
#include "bench/onednn.hpp"
#include "bench/turns.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "int8/convolution.hpp"

namespace eqt::bench {
namespace {

using int8::Convolution;
using int8::ConvolutionShape;
using int8::Kernels;

// Layers of ResNet-20 and ResNet-18: image, channels in and out, kernel, stride.
constexpr ConvolutionShape kShapes[] = {
    {32, 32, 3, 16, 3, 1},   {32, 32, 16, 16, 3, 1},  {32, 32, 16, 32, 3, 2},
    {32, 32, 16, 32, 1, 2},  {16, 16, 32, 32, 3, 1},  {16, 16, 32, 64, 3, 2},
    {8, 8, 64, 64, 3, 1},    {32, 32, 3, 64, 3, 1},   {32, 32, 64, 64, 3, 1},
    {32, 32, 64, 128, 3, 2}, {32, 32, 64, 128, 1, 2}, {16, 16, 128, 128, 3, 1},
    {8, 8, 256, 256, 3, 1},  {4, 4, 512, 512, 3, 1},
};

constexpr std::array kOperands = {Operands::int8, Operands::bf16, Operands::f32};
constexpr const char* kOperandNames[] = {"int8", "bf16", "f32"};
constexpr const char* kPassKeys[] = {"forward", "dx", "dw"};

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

/// One pass: 1e9 multiply-adds a second of ours, and of oneDNN where it has the pass.
struct Speeds {
  double ours = 0, float32 = 0;  // with 8-bit operands and with floats
  struct Other {
    double gmac_s = 0;
    std::string implementation;
  };
  std::optional<Other> others[kOperands.size()];
};

struct Row {
  ConvolutionShape shape;
  Kernels kernels;
  int samples;
  double peak;
  Speeds passes[kPasses.size()];
};

Speeds measure(Layer& layer, Pass pass, const BenchConvolutionsCommand& command,
               const ConvolutionShape& shape, OneDnn* onednn) {
  std::vector<std::function<void()>> works = {[&] { layer.run(pass); }};
  std::vector<std::unique_ptr<OneDnnPass>> others(kOperands.size());
  for (std::size_t i = 0; onednn && i < kOperands.size(); ++i) {
    others[i] = onednn->pass(shape, command.samples, pass, kOperands[i], layer.integers());
    if (others[i]) works.push_back([other = others[i].get()] { other->run(); });
  }
  FloatLayer floats(shape, command.samples, layer.integers());
  works.push_back([&] { floats.run(pass); });
  const std::vector<double> seconds = median_seconds_in_turn(works, command.seconds);
  const double macs = 1e-9 * static_cast<double>(shape.macs()) * command.samples;
  Speeds speeds{.ours = macs / seconds[0], .float32 = macs / seconds.back(), .others = {}};
  std::size_t work = 1;
  for (std::size_t i = 0; i < others.size(); ++i)
    if (others[i]) speeds.others[i] = {macs / seconds[work++], others[i]->implementation()};
  return speeds;
}

Row measure(const ConvolutionShape& shape, Kernels kernels, const BenchConvolutionsCommand& command,
            OneDnn* onednn) {
  std::vector<float> scales;
  for (int n = 0; n < command.samples; ++n) scales.push_back(1e-3f * static_cast<float>(n + 1));
  Layer layer(shape, kernels, scales);
  Row row{.shape = shape,
          .kernels = kernels,
          .samples = command.samples,
          .peak = peak_of(kernels, command.seconds),
          .passes = {}};
  for (std::size_t i = 0; i < kPasses.size(); ++i)
    row.passes[i] = measure(layer, kPasses[i], command, shape, onednn);
  return row;
}

void print_json(const Row& row, const OneDnn* onednn) {
  nlohmann::ordered_json line = {{"kernels", name_of(row.kernels)},
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
  if (onednn) {
    auto& beside = line["onednn"];
    beside = {{"version", onednn->version()}, {"instructions", onednn->instructions()}};
    for (std::size_t pass = 0; pass < kPasses.size(); ++pass)
      for (std::size_t i = 0; i < kOperands.size(); ++i)
        if (const auto& other = row.passes[pass].others[i])
          beside[kPassKeys[pass]][kOperandNames[i]] = {
              {"gmac_s", other->gmac_s},
              {"ratio", row.passes[pass].ours / other->gmac_s},
              {"implementation", other->implementation}};
  }
  fmt::print("{}\n", line.dump());
}

void print_head(int samples, const OneDnn* onednn) {
  fmt::print(
      "8-bit convolutions, {} samples a call, one thread. GMAC/s: 1e9 multiply-adds a second,\n"
      "those with the frame's zeros included, medians; share: of the instruction repeated on\n"
      "registers. Below each row what was timed in turn with it; x: how many times as fast the\n"
      "8-bit convolutions are.\n",
      samples);
  if (onednn)
    fmt::print(
        "oneDNN {} with {}: the fastest of its layouts and algorithms. It leaves\n"
        "products with the frame out; without VNNI its 8-bit sums may saturate at 16 bits.\n",
        onednn->version(), onednn->instructions());
  else
    fmt::print(
        "Not beside oneDNN, which this program was built without: install Debian's libdnnl-dev,\n"
        "then configure and build again.\n");
  fmt::print("\n{:<12} {:<26} {:>7} {:>5}  {:>7} {:>5}  {:>7} {:>5}  {:>7}\n", "kernels",
             "image, channels, kernel", "forward", "share", "dX", "share", "dW", "share", "peak");
}

void print_row(const Row& row) {
  fmt::print("{:<12} {:<26}", name_of(row.kernels), describe(row.shape));
  for (const Speeds& speeds : row.passes)
    fmt::print(" {:>7.1f} {:>4.0f}% ", speeds.ours, 100 * speeds.ours / row.peak);
  fmt::print(" {:>7.1f}\n", row.peak);
}

/// A line for what was timed in turn with the row above; `speed_of` a pass is 0 if it has none.
template <typename SpeedOf>
void print_beside(const Row& row, std::string_view name, SpeedOf speed_of) {
  std::string line = fmt::format("{:<12} {:<26}", "", name);
  bool any = false;
  for (const Speeds& speeds : row.passes) {
    const double speed = speed_of(speeds);
    any = any || speed > 0;
    line += speed > 0 ? fmt::format(" {:>7.1f} {:>4.2f}x ", speed, speeds.ours / speed)
                      : fmt::format(" {:>7} {:>5} ", "-", "-");
  }
  if (any) fmt::print("{}\n", line);
}

void print_others(const Row& row) {
  print_beside(row, "  ours, f32", [](const Speeds& speeds) { return speeds.float32; });
  for (std::size_t i = 0; i < kOperands.size(); ++i)
    print_beside(row, fmt::format("  oneDNN {}", kOperandNames[i]), [i](const Speeds& speeds) {
      return speeds.others[i] ? speeds.others[i]->gmac_s : 0;
    });
}

}  // namespace

void run_bench_convolutions(const BenchConvolutionsCommand& command) {
  const std::vector<Kernels> all = chosen(command.kernels);
  if (all.empty()) return;
  // A process has oneDNN with one set of instructions: it stands beside the first kernels.
  const std::unique_ptr<OneDnn> onednn = load_onednn(all.front());
  if (!command.json) print_head(command.samples, onednn.get());
  for (const Kernels kernels : all) {
    OneDnn* const beside = kernels == all.front() ? onednn.get() : nullptr;
    for (const ConvolutionShape& shape : kShapes) {
      require_plain_results(shape, kernels);
      if (beside) require_same_results(shape, kernels, *beside);
      const Row row = measure(shape, kernels, command, beside);
      command.json ? print_json(row, beside) : print_row(row);
      if (!command.json) print_others(row);
      std::fflush(stdout);
    }
  }
}

}  // namespace eqt::bench
