// SPDX-License-Identifier: Apache-2.0
// Convolutions with float32 operands against sums in float64.

#include "model/own/float_convolution.hpp"

#include <hwy/targets.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model::precision {
namespace {

using int8::ConvolutionShape;

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  const RandomStream random({seed, 1, 2, 3}, 0);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 2 * random.uniform(static_cast<std::uint32_t>(i)) - 1;
  return values;
}

/// Calls body(output, input, weight) with the places of each product of a sample.
template <typename Body>
void for_each_product(const ConvolutionShape& s, const Body& body) {
  const int pad = s.kernel / 2;
  for (int y = 0; y < s.out_height(); ++y)
    for (int x = 0; x < s.out_width(); ++x)
      for (int i = 0; i < s.kernel; ++i)
        for (int j = 0; j < s.kernel; ++j) {
          const int row = y * s.stride + i - pad, column = x * s.stride + j - pad;
          if (row < 0 || column < 0 || row >= s.height || column >= s.width) continue;
          for (int o = 0; o < s.out_channels; ++o) {
            const int inputs = s.depthwise ? 1 : s.in_channels;
            for (int c = 0; c < inputs; ++c)
              body(static_cast<std::size_t>((y * s.out_width() + x) * s.out_channels + o),
                   static_cast<std::size_t>((row * s.width + column) * s.in_channels +
                                            (s.depthwise ? o : c)),
                   static_cast<std::size_t>(((o * s.kernel + i) * s.kernel + j) * inputs + c));
          }
        }
}

struct Problem {
  explicit Problem(const ConvolutionShape& s)
      : shape(s),
        x(noise(kSamples * s.in_count(), 1)),
        w(noise(s.weight_count(), 2)),
        e(noise(kSamples * s.out_count(), 3)) {}

  static constexpr std::size_t kSamples = 2;
  ConvolutionShape shape;
  std::vector<float> x, w, e;
};

// Compiled targets with fused multiply-add.
constexpr std::int64_t kFused = HWY_AVX2 | HWY_AVX3 | HWY_NEON;

struct Results {
  std::vector<float> out, dx, dw;
  bool operator==(const Results&) const = default;
};

Results computed(const Problem& p, std::size_t parts = 1) {
  FloatConvolution convolution(p.shape);
  convolution.set_weights(p.w);
  const std::vector<float> ones(Problem::kSamples, 1.0f);
  const auto scratch = make_long_array<std::byte>(convolution.scratch_bytes());
  const std::span<std::byte> room(scratch.get(), convolution.scratch_bytes());
  // Not zero: what is overwritten is, and dw is added to.
  Results r{std::vector<float>(p.e.size(), 9), std::vector<float>(p.x.size(), 9),
            std::vector<float>(p.w.size(), 1)};
  convolution.forward(p.x, 0, ones, r.out, room);
  convolution.backward_input(p.e, ones, r.dx, room);
  for (std::size_t part = 0; part < parts; ++part)
    convolution.add_weight_gradient(p.x, 0, ones, p.e, ones, r.dw, room, {part, parts});
  return r;
}

/// The largest difference from the sums in float64, over the sum of the products' magnitudes.
double largest_error(const Problem& p, const Results& r) {
  struct Sum {
    double value = 0, magnitude = 0;
    void add(double product) {
      value += product;
      magnitude += std::abs(product);
    }
  };
  std::vector<Sum> out(r.out.size()), dx(r.dx.size()), dw(r.dw.size(), Sum{1, 1});
  for (std::size_t n = 0; n < Problem::kSamples; ++n)
    for_each_product(p.shape, [&](std::size_t o, std::size_t i, std::size_t k) {
      o += n * p.shape.out_count();
      i += n * p.shape.in_count();
      out[o].add(double{p.x[i]} * p.w[k]);
      dx[i].add(double{p.e[o]} * p.w[k]);
      dw[k].add(double{p.e[o]} * p.x[i]);
    });
  double most = 0;
  const auto compare = [&](const std::vector<Sum>& sums, const std::vector<float>& found) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      most = std::max(most, std::abs(found[i] - sums[i].value) / (sums[i].magnitude + 1e-30));
  };
  compare(out, r.out);
  compare(dx, r.dx);
  compare(dw, r.dw);
  return most;
}

}  // namespace

TEST_CASE("float32 convolutions are the sums that they should be, the same on most targets") {
  for (const ConvolutionShape& shape :
       {ConvolutionShape{8, 8, 16, 16, 3, 1}, ConvolutionShape{7, 9, 3, 20, 3, 1},
        ConvolutionShape{9, 7, 5, 33, 3, 2}, ConvolutionShape{8, 8, 16, 32, 1, 2},
        ConvolutionShape{5, 13, 17, 1, 1, 1}, ConvolutionShape{16, 16, 3, 16, 7, 2},
        ConvolutionShape{32, 32, 3, 8, 11, 4}, ConvolutionShape{6, 6, 4, 12, 5, 1},
        ConvolutionShape{1, 1, 2, 3, 3, 1}, ConvolutionShape{2, 30, 1, 4, 3, 2},
        ConvolutionShape{7, 9, 20, 20, 3, 1, true}, ConvolutionShape{8, 5, 33, 33, 5, 2, true}}) {
    INFO(shape.height << " x " << shape.width << " x " << shape.in_channels << ", "
                      << shape.out_channels << " outputs, side " << shape.kernel << ", stride "
                      << shape.stride);
    const Problem problem(shape);
    std::optional<Results> fused;
    test::for_each_simd_target([&] {
      const Results results = computed(problem);
      CHECK(largest_error(problem, results) < 1e-6);
      CHECK(computed(problem, 3) == results);
      if ((test::chosen_target() & kFused) == 0) return;
      CHECK(fused.value_or(results) == results);
      fused = results;
    });
  }
}

}  // namespace eqt::model::precision
