// SPDX-License-Identifier: Apache-2.0
#include "int8/convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::int8;

namespace {

using Bytes = std::vector<std::int8_t>;

/// Integers in [low, high], drawn from `seed`, with both ends among the first.
Bytes integers(std::size_t count, int low, int high, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  Bytes q(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto range = static_cast<std::uint64_t>(high - low + 1);
    const auto index = static_cast<std::uint32_t>(i);
    q[i] = static_cast<std::int8_t>(low + static_cast<int>(stream.bounded(index, range)));
  }
  if (count > 1) q[count / 2] = static_cast<std::int8_t>(low);
  if (count > 1) q[count / 3] = static_cast<std::int8_t>(high);
  return q;
}

/// The three passes by their definition, in 64 bits.
struct Oracle {
  ConvolutionShape shape;

  std::size_t taps() const { return static_cast<std::size_t>(shape.kernel * shape.kernel); }
  std::size_t outputs() const { return static_cast<std::size_t>(shape.out_channels); }

  /// f(input channel, weight) of each input channel that output channel `o` reads through a tap.
  template <typename F>
  void for_each_weight(std::size_t o, std::size_t tap, F f) const {
    if (shape.depthwise) return f(o, o * taps() + tap);
    const auto inputs = static_cast<std::size_t>(shape.in_channels);
    for (std::size_t c = 0; c < inputs; ++c) f(c, (o * taps() + tap) * inputs + c);
  }

  /// f(o, tap, c, input value, output value) of every product; indices in samples and weights.
  template <typename F>
  void for_each_product(F f) const {
    const auto inputs = static_cast<std::size_t>(shape.in_channels);
    const auto outputs = static_cast<std::size_t>(shape.out_channels);
    for (int row = 0; row < shape.out_height(); ++row) {
      for (int column = 0; column < shape.out_width(); ++column) {
        for (int tap = 0; tap < shape.kernel * shape.kernel; ++tap) {
          const int y = row * shape.stride + tap / shape.kernel - shape.kernel / 2;
          const int x = column * shape.stride + tap % shape.kernel - shape.kernel / 2;
          if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) continue;
          const auto in = static_cast<std::size_t>(y * shape.width + x) * inputs;
          const auto out = static_cast<std::size_t>(row * shape.out_width() + column) * outputs;
          f(static_cast<std::size_t>(tap), in, out);
        }
      }
    }
  }

  std::vector<std::int64_t> forward(const std::int8_t* x, int zero_point, const Bytes& w) const {
    std::vector<std::int64_t> sums(shape.out_count());
    for_each_product([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t o = 0; o < outputs(); ++o)
        for_each_weight(o, tap, [&](std::size_t c, std::size_t weight) {
          sums[out + o] += (x[in + c] - zero_point) * w[weight];
        });
    });
    return sums;
  }

  std::vector<std::int64_t> backward(const std::int8_t* error, const Bytes& w) const {
    std::vector<std::int64_t> sums(shape.in_count());
    for_each_product([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t o = 0; o < outputs(); ++o)
        for_each_weight(o, tap, [&](std::size_t c, std::size_t weight) {
          sums[in + c] += static_cast<std::int64_t>(error[out + o]) * w[weight];
        });
    });
    return sums;
  }

  void gradient(const std::int8_t* x, int zero_point, const std::int8_t* error,
                std::vector<std::int64_t>& sums) const {
    for_each_product([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t o = 0; o < outputs(); ++o)
        for_each_weight(o, tap, [&](std::size_t c, std::size_t weight) {
          sums[weight] += static_cast<std::int64_t>(error[out + o]) * (x[in + c] - zero_point);
        });
    });
  }
};

/// Number of places where a and b have other bits.
std::size_t differences(std::span<const float> a, std::span<const float> b) {
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i] ? 1u : 0u;
  return count;
}

float as_float(std::int64_t sum) { return static_cast<float>(static_cast<std::int32_t>(sum)); }

/// Operands of all passes. Rows of weights have a 127, so that they are their own quantized values
/// times the scale 2^-9.
struct Case {
  Case(const ConvolutionShape& shape, std::size_t count, int zero)
      : oracle{shape},
        samples(count),
        zero_point(zero),
        x(integers(count * shape.in_count(), zero == 0 ? -127 : -128, 127, 1)),
        error(integers(count * shape.out_count(), -127, 127, 2)),
        w(integers(shape.weight_count(), -127, 127, 3)) {
    const std::size_t row = shape.weight_count() / static_cast<std::size_t>(shape.out_channels);
    for (std::size_t i = 0; i < w.size(); i += row) w[i] = i / row % 2 == 0 ? 127 : -127;
    for (const std::int8_t q : w) weights.push_back(static_cast<float>(q) * 0x1p-9f);
    for (std::size_t n = 0; n < count; ++n) {  // neighbours with equal scales among them
      scales.push_back(0.01f * static_cast<float>(1 + n / 2));
      error_scales.push_back(0.003f * static_cast<float>(1 + n / 4));
    }
  }

  Oracle oracle;
  std::size_t samples;
  int zero_point;
  Bytes x, error, w;
  std::vector<float> weights, scales, error_scales;
};

std::vector<float> expected_forward(const Case& c) {
  std::vector<float> out;
  for (std::size_t n = 0; n < c.samples; ++n) {
    const auto sums =
        c.oracle.forward(c.x.data() + n * c.oracle.shape.in_count(), c.zero_point, c.w);
    for (const auto sum : sums) out.push_back(as_float(sum) * (c.scales[n] * 0x1p-9f));
  }
  return out;
}

std::vector<float> expected_backward(const Case& c) {
  std::vector<float> dx;
  for (std::size_t n = 0; n < c.samples; ++n) {
    const auto sums = c.oracle.backward(c.error.data() + n * c.oracle.shape.out_count(), c.w);
    for (const auto sum : sums) dx.push_back(as_float(sum) * c.error_scales[n]);
  }
  return dx;
}

void add_expected_gradient(const Case& c, std::vector<float>& dw) {
  std::vector<std::int64_t> sums(dw.size());
  for (std::size_t n = 0; n < c.samples; ++n) {
    c.oracle.gradient(c.x.data() + n * c.oracle.shape.in_count(), c.zero_point,
                      c.error.data() + n * c.oracle.shape.out_count(), sums);
    if (n + 1 < c.samples && c.scales[n + 1] == c.scales[n] &&
        c.error_scales[n + 1] == c.error_scales[n])
      continue;
    const float scale = c.scales[n] * c.error_scales[n];
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] = dw[i] + as_float(sums[i]) * scale;
    std::ranges::fill(sums, 0);
  }
}

void check_case(const ConvolutionShape& shape, std::size_t samples, int zero_point) {
  const Case c(shape, samples, zero_point);
  const std::vector<float> out = expected_forward(c), dx = expected_backward(c);
  std::vector<float> dw(shape.weight_count(), 0.5f);
  add_expected_gradient(c, dw);
  for (const Kernels kernels : available()) {
    INFO(name_of(kernels) << ": " << samples << " x " << shape.height << " x " << shape.width
                          << " x " << shape.in_channels << " -> " << shape.out_channels << ", "
                          << shape.kernel << " / " << shape.stride << ", zero " << zero_point);
    Convolution convolution(shape, kernels);
    convolution.set_weights(c.weights);
    const auto bytes = convolution.scratch_bytes(static_cast<int>(samples));
    const auto memory = make_long_array<std::byte>(bytes);
    const std::span scratch(memory.get(), bytes);
    const auto nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> result(samples * shape.out_count(), nan);
    convolution.forward(c.x, zero_point, c.scales, result, scratch);
    CHECK(differences(result, out) == 0);
    result.assign(samples * shape.in_count(), nan);
    convolution.backward_input(c.error, c.error_scales, result, scratch);
    CHECK(differences(result, dx) == 0);
    result.assign(shape.weight_count(), 0.5f);
    convolution.add_weight_gradient(c.x, zero_point, c.scales, c.error, c.error_scales, result,
                                    scratch);
    CHECK(differences(result, dw) == 0);
    result.assign(shape.weight_count(), 0.5f);
    for (const std::size_t part : {2u, 0u, 1u})
      convolution.add_weight_gradient(c.x, zero_point, c.scales, c.error, c.error_scales, result,
                                      scratch, {.index = part, .count = 3});
    CHECK(differences(result, dw) == 0);
  }
}

}  // namespace

TEST_CASE("every kernel gives the exact sums, for all sizes of images", "[int8]") {
  for (const int size : {1, 2, 4, 7, 8}) {
    for (const int kernel : {1, 3}) {
      for (const int stride : {1, 2}) {
        for (const std::size_t samples : {1u, 3u}) {
          check_case({size, size, 16, 32, kernel, stride}, samples, kernel == 1 ? 0 : -128);
        }
      }
    }
  }
  check_case({5, 9, 8, 24, 3, 2}, 2, 0);
  check_case({32, 32, 4, 4, 3, 1}, 1, -128);
}

TEST_CASE("every kernel gives the exact sums, for all numbers of channels", "[int8]") {
  for (const int channels : {3, 4, 16, 20, 64}) {
    for (const int outputs : {3, 10, 16, 48, 64}) {
      check_case({4, 4, channels, outputs, 3, 1}, 1, 0);
      check_case({6, 4, channels, outputs, 3, 2}, 2, -128);
      check_case({3, 5, channels, outputs, 1, 1}, 3, 5);
    }
  }
  check_case({4, 4, 512, 512, 3, 1}, 1, -128);
  check_case({16, 16, 3, 16, 7, 2}, 1, 0);
}

TEST_CASE("every kernel gives the exact sums in the networks' layers", "[int8]") {
  check_case({32, 32, 3, 16, 3, 1}, 1, 0);
  check_case({32, 32, 16, 16, 3, 1}, 1, -128);
  check_case({32, 32, 16, 32, 1, 2}, 1, -128);
  check_case({16, 16, 32, 32, 3, 1}, 1, -128);
  check_case({8, 8, 64, 64, 3, 1}, 8, -128);
  check_case({4, 4, 64, 128, 3, 2}, 16, -128);
  check_case({32, 32, 3, 64, 11, 4}, 2, 0);
  check_case({9, 7, 20, 16, 11, 4}, 2, -128);
  check_case({4, 4, 64, 192, 5, 1}, 3, -128);
}

TEST_CASE("every kernel gives the exact sums of depthwise convolutions", "[int8]") {
  const auto check = [](int height, int width, int channels, int kernel, int stride,
                        std::size_t samples, int zero_point) {
    check_case({height, width, channels, channels, kernel, stride, true}, samples, zero_point);
  };
  for (const int channels : {1, 8, 16, 20, 48}) {
    for (const int stride : {1, 2}) {
      check(7, 9, channels, 3, stride, 3, -128);
      check(6, 4, channels, 5, stride, 2, 0);
      check(1, 2, channels, 3, stride, 5, 3);
    }
  }
  check(9, 8, 24, 7, 1, 1, -128);
  check(5, 13, 16, 11, 4, 2, -128);
  check(4, 4, 16, 1, 1, 2, 0);
  for (int width = 1; width <= 9; ++width) {  // any number of outputs that are left over
    check(5, width, 24, 3, 1, 1, -128);
    check(6, width, 24, 5, 2, 1, 3);
  }
  for (const int stride : {2, 4}) {  // inputs that no output meets, or a part of the filter
    check(6, 7, 16, 1, stride, 2, -128);
    check(9, 10, 16, 3, stride, 2, 0);
    check(10, 9, 20, 7, stride, 1, -128);
  }
  check(40, 40, 16, 3, 1, 2, -128);   // samples whose sums float32 does not have at once
  check(2, 1030, 16, 3, 1, 2, -128);  // rows whose sums float32 does not have at once
}

TEST_CASE("no sum saturates where all operands are at their ends", "[int8]") {
  const ConvolutionShape shape{3, 3, 512, 16, 3, 1};
  Case c(shape, 1, -128);
  for (const int sign : {1, -1}) {
    std::ranges::fill(c.x, std::int8_t{127});
    std::ranges::fill(c.error, static_cast<std::int8_t>(127 * sign));
    std::ranges::fill(c.w, static_cast<std::int8_t>(127 * sign));
    std::ranges::fill(c.weights, static_cast<float>(127 * sign) * 0x1p-9f);
    const std::vector<float> out = expected_forward(c), dx = expected_backward(c);
    std::vector<float> dw(shape.weight_count());
    add_expected_gradient(c, dw);
    CHECK(out[4 * 16] == 9.0f * 512 * 255 * 127 * static_cast<float>(sign) * (0.01f * 0x1p-9f));
    for (const Kernels kernels : available()) {
      INFO(name_of(kernels));
      Convolution convolution(shape, kernels);
      convolution.set_weights(c.weights);
      const auto bytes = convolution.scratch_bytes();
      const auto memory = make_long_array<std::byte>(bytes);
      const std::span scratch(memory.get(), bytes);
      std::vector<float> result(shape.out_count());
      convolution.forward(c.x, -128, c.scales[0], result, scratch);
      CHECK(differences(result, out) == 0);
      result.resize(shape.in_count());
      convolution.backward_input(c.error, c.error_scales[0], result, scratch);
      CHECK(differences(result, dx) == 0);
      result.assign(shape.weight_count(), 0);
      convolution.add_weight_gradient(c.x, -128, c.scales[0], c.error, c.error_scales[0], result,
                                      scratch);
      CHECK(differences(result, dw) == 0);
    }
  }
}

TEST_CASE("samples with common scales give the exact sums, of whole products and less", "[int8]") {
  // Rows of 1 to 9 steps, and samples of fewer steps than AMX multiplies at once.
  for (const int size : {1, 3, 7, 9, 15, 31}) {
    check_case({size, size, 24, 64, 3, 1}, 3, -128);
    check_case({size, size, 40, 33, 3, 1}, 9, 3);
  }
  check_case({3, 3, 64, 80, 3, 1}, 16, -128);
  check_case({3, 3, 5, 40, 3, 2}, 16, 7);
}

#if defined(__x86_64__)
TEST_CASE("a system that refuses AMX's tiles leaves the next family", "[int8]") {
  const std::vector<Kernels> here = available();
  if (std::ranges::find(here, Kernels::amx_int8) == here.end()) {
    WARN("not tested: this processor, system or compiler has no tiles");
    return;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(std::system(fmt::format("'{}' '[refused-tiles]'", self).c_str()) == 0);
}

TEST_CASE("Linux refuses AMX's tiles where a signal stack is too small", "[.][refused-tiles]") {
  static std::array<std::byte, 8192> memory;  // the registers of AVX-512 fit, the tiles do not
  const stack_t stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  stack_t before;
  REQUIRE(sigaltstack(&stack, &before) == 0);
  CHECK(available().front() == Kernels::avx512_vnni);
  CHECK(fastest_here() == Kernels::avx512_vnni);
  REQUIRE(sigaltstack(&before, nullptr) == 0);
}
#endif

TEST_CASE("weights have a scale for each output channel", "[int8]") {
  Convolution convolution({1, 1, 2, 3, 1, 1});
  convolution.set_weights(std::vector<float>{1, -2, 0, 0, 0.25f, 0.5f});
  const auto scales = convolution.weight_scales();
  CHECK(scales[0] == 2.0f / 127);
  CHECK(scales[1] == 1.0f);
  CHECK(scales[2] == 0.5f / 127);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_THROWS_AS(convolution.set_weights(std::vector<float>{1, 2, 3, infinity, 5, 6}), Error);
}

TEST_CASE("weights that are rounded already are taken as they are", "[int8]") {
  const ConvolutionShape shape = {
      .height = 1, .width = 7, .in_channels = 5, .out_channels = 9, .kernel = 1};
  Convolution from_floats(shape), from_rounded(shape);
  const Bytes q = integers(shape.weight_count(), -127, 127, 1);
  std::vector<float> weights;
  for (const std::int8_t value : q) weights.push_back(0.25f * static_cast<float>(value));
  from_floats.set_weights(weights, true);
  from_rounded.set_rounded(q, 0.25f);
  const Bytes x = integers(shape.in_count(), -128, 127, 2);
  LongArray<std::byte> scratch = make_long_array<std::byte>(from_floats.scratch_bytes());
  const std::span<std::byte> room(scratch.get(), from_floats.scratch_bytes());
  std::vector<float> expected(shape.out_count()), found(shape.out_count());
  from_floats.forward(x, 0, 0.5f, expected, room);
  from_rounded.forward(x, 0, 0.5f, found, room);
  CHECK(found == expected);
  CHECK_THROWS_AS(from_rounded.set_rounded(Bytes(3), 1), Error);
}

TEST_CASE("buffers of other sizes and sums that may overflow are errors", "[int8]") {
  CHECK_THROWS_AS(Convolution({8, 8, 8192, 8, 3, 1}), Error);
  CHECK_THROWS_AS(Convolution({8, 8, 8, 8, 4, 1}), Error);
  CHECK_THROWS_AS(Convolution({8, 8, 8, 8, 3, 3}), Error);
  CHECK_THROWS_AS(Convolution({8, 8, 8, 16, 3, 1, true}), Error);
  Convolution convolution({2, 2, 4, 4, 3, 1});
  CHECK_THROWS_AS(convolution.set_weights(std::vector<float>(9)), Error);
  convolution.set_weights(std::vector<float>(144));
  const auto bytes = convolution.scratch_bytes();
  const auto memory = make_long_array<std::byte>(bytes + 64);
  std::vector<float> out(16);
  const Bytes x(16);
  CHECK_THROWS_AS(convolution.forward(x, 0, 1, out, {memory.get(), bytes - 1}), Error);
  CHECK_THROWS_AS(convolution.forward(x, 0, 1, out, {memory.get() + 4, bytes}), Error);
  CHECK_THROWS_AS(convolution.forward(x, 0, 1, std::span(out).first(15), {memory.get(), bytes}),
                  Error);
}
