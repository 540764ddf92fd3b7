// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/bench.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "core/random.hpp"
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

constexpr const char* kPasses[] = {"forward", "dX", "dW"};
constexpr std::size_t kPassCount = std::size(kPasses);

std::vector<std::int8_t> integers(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, static_cast<std::uint32_t>(RandomPurpose::synthetic)});
  std::vector<std::int8_t> q(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    q[i] = static_cast<std::int8_t>(static_cast<int>(stream.bounded(index, 255)) - 127);
  }
  return q;
}

/// One layer with the operands and results of all passes.
class Layer {
 public:
  Layer(const ConvolutionShape& shape, Kernels kernels, int samples)
      : convolution_(shape, kernels),
        x_(integers(at(samples) * shape.in_count(), 1)),
        error_(integers(at(samples) * shape.out_count(), 2)),
        scales_(at(samples)),
        results_{std::vector<float>(error_.size()), std::vector<float>(x_.size()),
                 std::vector<float>(shape.weight_count())},
        scratch_bytes_(convolution_.scratch_bytes(samples)),
        scratch_(make_long_array<std::byte>(scratch_bytes_)) {
    std::vector<float> weights;
    for (const std::int8_t q : integers(shape.weight_count(), 3))
      weights.push_back(static_cast<float>(q));
    convolution_.set_weights(weights);
    for (int n = 0; n < samples; ++n) scales_[at(n)] = 1e-3f * static_cast<float>(n + 1);
  }

  void run(std::size_t pass) {
    const std::span scratch(scratch_.get(), scratch_bytes_);
    std::vector<float>& result = results_[pass];
    if (pass == 0)
      convolution_.forward(x_, -128, scales_, result, scratch);
    else if (pass == 1)
      convolution_.backward_input(error_, scales_, result, scratch);
    else
      convolution_.add_weight_gradient(x_, -128, scales_, error_, scales_, result, scratch);
  }
  const std::vector<float>& result(std::size_t pass) const { return results_[pass]; }

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }

  Convolution convolution_;
  std::vector<std::int8_t> x_, error_;
  std::vector<float> scales_;
  std::vector<float> results_[kPassCount];
  std::size_t scratch_bytes_;
  LongArray<std::byte> scratch_;
};

std::string describe(const ConvolutionShape& s) {
  return fmt::format("{0} x {0} {1} -> {2}, {3} / {4}", s.height, s.in_channels, s.out_channels,
                     s.kernel, s.stride);
}

void verify(const ConvolutionShape& shape, Kernels kernels) {
  constexpr int kSamples = 2;
  Layer layer(shape, kernels, kSamples), plain(shape, Kernels::scalar, kSamples);
  for (std::size_t pass = 0; pass < kPassCount; ++pass) {
    layer.run(pass);
    plain.run(pass);
    if (layer.result(pass) != plain.result(pass))
      fail(Kind::bug, "convolution {} with {}: expected {} as plain loops give it, found another",
           describe(shape), name_of(kernels), kPasses[pass]);
  }
}

/// The fastest of the passes in `seconds`, by the time of this thread: what others take of a core
/// only makes passes slower. @return [1e9 multiply-adds / s]
template <typename Work>
double gmac_per_second(double macs, double seconds, Work work) {
  double best = 0;
  const Stopwatch total;
  do {
    const WorkStopwatch watch;
    work();
    best = std::max(best, macs / watch.seconds() * 1e-9);
  } while (total.seconds() < seconds);
  return best;
}

double peak_of(Kernels kernels, double seconds) {
  constexpr std::size_t kRepetitions = 50000;
  const auto macs = static_cast<double>(int8::repeat_product(kernels, kRepetitions));
  return gmac_per_second(macs, seconds, [&] { int8::repeat_product(kernels, kRepetitions); });
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

struct Row {
  ConvolutionShape shape;
  Kernels kernels;
  int samples;
  double peak;
  double gmac_s[kPassCount];
};

void print_json(const Row& row) {
  nlohmann::ordered_json line = {{"kernels", name_of(row.kernels)},
                                 {"height", row.shape.height},
                                 {"width", row.shape.width},
                                 {"in_channels", row.shape.in_channels},
                                 {"out_channels", row.shape.out_channels},
                                 {"kernel", row.shape.kernel},
                                 {"stride", row.shape.stride},
                                 {"samples", row.samples},
                                 {"forward_gmac_s", row.gmac_s[0]},
                                 {"dx_gmac_s", row.gmac_s[1]},
                                 {"dw_gmac_s", row.gmac_s[2]},
                                 {"peak_gmac_s", row.peak}};
  fmt::print("{}\n", line.dump());
}

void print_head(int samples) {
  fmt::print(
      "8-bit convolutions, {} samples a call, one thread. GMAC/s: 1e9 multiply-adds a second,\n"
      "those with the frame's zeros included; share: of the instruction repeated on registers.\n\n"
      "{:<12} {:<26} {:>7} {:>5}  {:>7} {:>5}  {:>7} {:>5}  {:>7}\n",
      samples, "kernels", "image, channels, kernel", kPasses[0], "share", kPasses[1], "share",
      kPasses[2], "share", "peak");
}

void print_row(const Row& row) {
  fmt::print("{:<12} {:<26}", name_of(row.kernels), describe(row.shape));
  for (const double speed : row.gmac_s)
    fmt::print(" {:>7.1f} {:>4.0f}% ", speed, 100 * speed / row.peak);
  fmt::print(" {:>7.1f}\n", row.peak);
}

}  // namespace

void run_bench_convolutions(const BenchConvolutionsCommand& command) {
  const std::vector<Kernels> all = chosen(command.kernels);
  if (!command.json) print_head(command.samples);
  for (const Kernels kernels : all) {
    for (const ConvolutionShape& shape : kShapes) {
      verify(shape, kernels);
      Layer layer(shape, kernels, command.samples);
      Row row{.shape = shape,
              .kernels = kernels,
              .samples = command.samples,
              .peak = peak_of(kernels, command.seconds),
              .gmac_s = {}};
      const double macs = static_cast<double>(shape.macs()) * command.samples;
      for (std::size_t pass = 0; pass < kPassCount; ++pass)
        row.gmac_s[pass] = gmac_per_second(macs, command.seconds, [&] { layer.run(pass); });
      command.json ? print_json(row) : print_row(row);
      std::fflush(stdout);
    }
  }
}

}  // namespace eqt::bench
