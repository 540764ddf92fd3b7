// SPDX-License-Identifier: Apache-2.0
// The layers of the networks, computed from 8-bit operands, compared with sums of float64 of the
// same operands as floats.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "int8/convolution.hpp"
#include "int8/quantize.hpp"
#include "model/own/plan.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

using int8::Convolution;
using int8::ConvolutionShape;

// Two, so that dW adds what has different scales.
constexpr std::size_t kSamples = 2;

/// Values in [low, 1), about a third of them 0 if low is.
std::vector<float> draw(std::size_t count, float low, std::uint64_t seed) {
  const RandomStream random({.run_seed = seed});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float u = random.uniform(static_cast<std::uint32_t>(i));
    values[i] = low == 0 ? std::max(0.0f, 1.5f * u - 0.5f) : low + (1 - low) * u;
  }
  return values;
}

/// 8-bit values of samples, and what they stand for.
struct Operand {
  std::vector<std::int8_t> q;
  std::vector<float> scales;   // by sample
  std::vector<double> values;  // scale * (q - zero point)
};

/// The three products by their definition. x (N, H, W, C), w (O, kh, kw, C), e (N, H', W', O).
class Oracle {
 public:
  explicit Oracle(const ConvolutionShape& shape)
      : shape_(shape),
        inputs_(static_cast<std::size_t>(shape.in_channels)),
        outputs_(static_cast<std::size_t>(shape.out_channels)),
        taps_(static_cast<std::size_t>(shape.kernel * shape.kernel)) {}

  std::vector<double> forward(const std::vector<double>& x, const std::vector<double>& w) const {
    std::vector<double> result(kSamples * shape_.out_count());
    const std::vector<double> by_input = turned(w);
    for_each_tap([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t c = 0; c < inputs_; ++c)
        add(x[in + c], &by_input[(tap * inputs_ + c) * outputs_], &result[out], outputs_);
    });
    return result;
  }

  std::vector<double> input_error(const std::vector<double>& e,
                                  const std::vector<double>& w) const {
    std::vector<double> dx(kSamples * shape_.in_count());
    for_each_tap([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t o = 0; o < outputs_; ++o)
        add(e[out + o], &w[(o * taps_ + tap) * inputs_], &dx[in], inputs_);
    });
    return dx;
  }

  std::vector<double> gradient(const std::vector<double>& x, const std::vector<double>& e) const {
    std::vector<double> dw(shape_.weight_count());
    for_each_tap([&](std::size_t tap, std::size_t in, std::size_t out) {
      for (std::size_t o = 0; o < outputs_; ++o)
        add(e[out + o], &x[in], &dw[(o * taps_ + tap) * inputs_], inputs_);
    });
    return dw;
  }

 private:
  static void add(double factor, const double* from, double* to, std::size_t count) {
    if (factor == 0) return;
    for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
  }

  /// (O, taps, C) as (taps, C, O).
  std::vector<double> turned(const std::vector<double>& w) const {
    std::vector<double> by_input(w.size());
    for (std::size_t o = 0; o < outputs_; ++o)
      for (std::size_t i = 0; i < taps_ * inputs_; ++i)
        by_input[i * outputs_ + o] = w[o * taps_ * inputs_ + i];
    return by_input;
  }

  /// f(tap, first value of the input's pixel, of the output's) where both are in the image, of all
  /// samples.
  template <typename F>
  void for_each_tap(F f) const {
    for (std::size_t n = 0; n < kSamples; ++n)
      for_each_tap(f, n * shape_.in_count(), n * shape_.out_count());
  }
  template <typename F>
  void for_each_tap(F f, std::size_t first, std::size_t first_out) const {
    for (int tap = 0; tap < shape_.kernel * shape_.kernel; ++tap) {
      for (int row = 0; row < shape_.out_height(); ++row) {
        for (int column = 0; column < shape_.out_width(); ++column) {
          const int y = row * shape_.stride + tap / shape_.kernel - shape_.kernel / 2;
          const int x = column * shape_.stride + tap % shape_.kernel - shape_.kernel / 2;
          if (y < 0 || y >= shape_.height || x < 0 || x >= shape_.width) continue;
          const auto in = static_cast<std::size_t>(y * shape_.width + x);
          const auto out = static_cast<std::size_t>(row * shape_.out_width() + column);
          f(static_cast<std::size_t>(tap), first + in * inputs_, first_out + out * outputs_);
        }
      }
    }
  }

  ConvolutionShape shape_;
  std::size_t inputs_, outputs_, taps_;
};

/// The operands of a layer's three products, rounded as Executor rounds them.
struct Case {
  Case(const ConvolutionShape& of_layer, bool image)
      : shape(of_layer),
        zero_point(image ? 0 : int8::kUnsignedZeroPoint),
        weights(draw(shape.weight_count(), -1, 1)),
        outputs(static_cast<std::size_t>(shape.out_channels)) {
    round_weights();
    const std::vector<float> input = draw(kSamples * shape.in_count(), image ? -1.0f : 0.0f, 2);
    x = operand(input, [&](std::span<const float> from, std::span<std::int8_t> to, std::size_t) {
      return image ? int8::quantize_signed(from, to) : int8::quantize_unsigned(from, to);
    });
    for (std::size_t i = 0; i < x.q.size(); ++i)
      x.values.push_back(scale_of(x, i) * (x.q[i] - zero_point));

    // Errors are rounded with the weights' scales in them, and stand for values without.
    std::vector<float> errors = draw(kSamples * shape.out_count(), -1, 3);
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] *= weight_scales[i % outputs];
    error = operand(errors, [](std::span<const float> from, std::span<std::int8_t> to, auto n) {
      return int8::quantize_stochastic(from, to, {.run_seed = 4}, static_cast<std::uint32_t>(n));
    });
    for (std::size_t i = 0; i < error.q.size(); ++i)
      error.values.push_back(scale_of(error, i) * error.q[i] /
                             static_cast<double>(weight_scales[i % outputs]));
    split_errors(errors);
  }

  ConvolutionShape shape;
  int zero_point;
  std::vector<float> weights, weight_scales;  // (O, kh, kw, C), (O)
  std::vector<double> rounded_weights;
  std::size_t outputs;
  Operand x, error;
  Operand high, low;         // of errors of 14 bits
  std::vector<double> wide;  // what both together stand for

 private:
  void round_weights() {
    const std::size_t row = weights.size() / outputs;
    std::vector<std::int8_t> q(row);
    for (std::size_t o = 0; o < outputs; ++o) {
      const auto scale = int8::quantize_signed(std::span(weights).subspan(o * row, row), q);
      weight_scales.push_back(scale);
      for (const std::int8_t value : q) rounded_weights.push_back(double{scale} * value);
    }
  }

  /// Both samples share a scale.
  void split_errors(const std::vector<float>& errors) {
    std::vector<std::int16_t> q(errors.size());
    const float scale = int8::quantize_wide(errors, q);
    high.q.resize(q.size()), low.q.resize(q.size());
    int8::split_wide(q, high.q, low.q);
    high.scales.assign(kSamples, scale * int8::kHighDigit);
    low.scales.assign(kSamples, scale);
    for (std::size_t i = 0; i < q.size(); ++i)
      wide.push_back(double{scale} * q[i] / static_cast<double>(weight_scales[i % outputs]));
  }

  /// The second sample is a hundredth of the first.
  template <typename Quantize>
  static Operand operand(std::vector<float> from, Quantize quantize) {
    Operand to{.q = std::vector<std::int8_t>(from.size()), .scales = {}, .values = {}};
    const std::size_t count = from.size() / kSamples;
    for (float& value : std::span(from).subspan(count)) value *= 0.01f;
    for (std::size_t n = 0; n < kSamples; ++n)
      to.scales.push_back(quantize(std::span<const float>(from).subspan(n * count, count),
                                   std::span(to.q).subspan(n * count, count), n));
    return to;
  }
  static double scale_of(const Operand& of, std::size_t i) {
    return of.scales[i / (of.q.size() / kSamples)];
  }
};

/// What one family of kernels makes of a case.
struct Results {
  std::vector<float> out, dx, dw, wide_dw;
};

Results computed(const Case& c, int8::Kernels kernels) {
  Convolution convolution(c.shape, kernels);
  convolution.set_weights(c.weights);
  const std::size_t bytes = convolution.scratch_bytes(static_cast<int>(kSamples));
  const auto memory = make_long_array<std::byte>(bytes);
  const std::span scratch(memory.get(), bytes);
  Results results{.out = std::vector<float>(c.error.q.size()),
                  .dx = std::vector<float>(c.x.q.size()),
                  .dw = std::vector<float>(c.weights.size()),
                  .wide_dw = std::vector<float>(c.weights.size())};
  convolution.forward(c.x.q, c.zero_point, c.x.scales, results.out, scratch);
  convolution.backward_input(c.error.q, c.error.scales, results.dx, scratch);
  const auto add_gradient = [&](const Operand& error, std::vector<float>& dw) {
    convolution.add_weight_gradient(c.x.q, c.zero_point, c.x.scales, error.q, error.scales, dw,
                                    scratch);
  };
  add_gradient(c.error, results.dw);
  add_gradient(c.high, results.wide_dw);
  add_gradient(c.low, results.wide_dw);
  const std::size_t row = c.weights.size() / c.outputs;
  for (auto* const dw : {&results.dw, &results.wide_dw})
    for (std::size_t i = 0; i < dw->size(); ++i) (*dw)[i] /= c.weight_scales[i / row];
  return results;
}

/// The largest |a - b| / max |b| over samples of `count` values.
double largest_error(const std::vector<float>& a, const std::vector<double>& b, std::size_t count) {
  double worst = 0;
  for (std::size_t first = 0; first < b.size(); first += count) {
    double error = 0, largest = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      error = std::max(error, std::abs(a[i] - b[i]));
      largest = std::max(largest, std::abs(b[i]));
    }
    worst = std::max(worst, error / largest);
  }
  return worst;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Input and output, kernel and stride of a layer.
using Key = std::tuple<int, int, int, int, int>;

/// The layers of a network that are not there yet. @param side  [pixels] of the pictures
void add_layers(const ModelRow& model, int side, std::map<Key, ConvolutionShape>& layers) {
  const ModelOptions options{
      .model = model, .inputs = test::pictures({3, side, side}), .precision = Precision::int8};
  for (const precision::Branch& branch : precision::make_plan(options).branches) {
    const ConvolutionShape& s = branch.shape;
    layers.insert({{s.height, s.in_channels, s.out_channels, s.kernel, s.stride}, s});
  }
}

void check_layers(const std::map<Key, ConvolutionShape>& layers) {
  for (const auto& [key, shape] : layers) {
    INFO(shape.height << " x " << shape.width << " x " << shape.in_channels << " -> "
                      << shape.out_channels << ", " << shape.kernel << " / " << shape.stride);
    const Case c(shape, shape.in_channels == 3);
    const Oracle oracle(shape);
    const auto dw = oracle.gradient(c.x.values, c.error.values);
    const auto wide_dw = oracle.gradient(c.x.values, c.wide);
    const std::vector<int8::Kernels> families = int8::available();
    const Results first = computed(c, families.front());
    CHECK(largest_error(first.out, oracle.forward(c.x.values, c.rounded_weights),
                        shape.out_count()) < 1e-6);
    CHECK(largest_error(first.dx, oracle.input_error(c.error.values, c.rounded_weights),
                        shape.in_count()) < 1e-6);
    CHECK(largest_error(first.dw, dw, dw.size()) < 1e-6);
    CHECK(largest_error(first.wide_dw, wide_dw, wide_dw.size()) < 1e-6);
    for (const int8::Kernels kernels : std::span(families).subspan(1)) {
      INFO(name_of(kernels));
      const Results other = computed(c, kernels);
      CHECK(same_bits(other.out, first.out));
      CHECK(same_bits(other.dx, first.dx));
      CHECK(same_bits(other.dw, first.dw));
      CHECK(same_bits(other.wide_dw, first.wide_dw));
    }
  }
}

TEST_CASE("layers for small pictures are their operands' products in float64, to 1e-6") {
  using namespace models;
  std::map<Key, ConvolutionShape> layers;
  const ModelRow* const rows[] = {&resnet18, &resnet20,  &resnet34, &resnet50, &resnet54,
                                  &resnet56, &resnet110, &vgg11,    &alexnet};
  for (const ModelRow* row : rows) add_layers(*row, 32, layers);
  CHECK(layers.contains({32, 3, 16, 3, 1}));
  CHECK(layers.contains({32, 16, 32, 1, 2}));
  CHECK(layers.contains({32, 3, 64, 11, 4}));
  CHECK(layers.contains({8, 256, 512, 3, 2}));
  CHECK(layers.contains({4, 2048, 512, 1, 1}));
  check_layers(layers);
}

// 68 pixels a side have the large stem, and odd sides behind it.
TEST_CASE("layers for large pictures are their operands' products in float64, to 1e-6") {
  std::map<Key, ConvolutionShape> layers;
  add_layers(models::resnet18, 68, layers);
  CHECK(layers.contains({68, 3, 64, 7, 2}));
  CHECK(layers.contains({17, 64, 128, 1, 2}));
  check_layers(layers);
}

/// Passes errors down through a layer as Executor does: rounded with the scales of the weights in
/// them.
class Descent {
 public:
  explicit Descent(const Case& of) : case_(of), convolution_(of.shape) {
    convolution_.set_weights(of.weights);
    scratch_bytes_ = convolution_.scratch_bytes(static_cast<int>(kSamples));
    scratch_ = make_long_array<std::byte>(scratch_bytes_);
  }

  /// (N, H', W', O) -> (N, H, W, C)
  std::vector<float> operator()(std::vector<float> errors, const RandomKey& key) {
    for (std::size_t i = 0; i < errors.size(); ++i)
      errors[i] *= case_.weight_scales[i % case_.outputs];
    const std::size_t count = case_.shape.out_count();
    std::vector<std::int8_t> q(errors.size());
    std::vector<float> scales, dx(kSamples * case_.shape.in_count());
    for (std::size_t n = 0; n < kSamples; ++n)
      scales.push_back(int8::quantize_stochastic(
          std::span<const float>(errors).subspan(n * count, count),
          std::span(q).subspan(n * count, count), key, static_cast<std::uint32_t>(n)));
    convolution_.backward_input(q, scales, dx, {scratch_.get(), scratch_bytes_});
    return dx;
  }

 private:
  const Case& case_;
  Convolution convolution_;
  std::size_t scratch_bytes_ = 0;
  LongArray<std::byte> scratch_;
};

/// Sums over draws of the deviations of values from what their means should be.
class Deviations {
 public:
  explicit Deviations(std::vector<double> expected)
      : expected_(std::move(expected)), sums_(expected_.size()), squares_(expected_.size()) {}

  void add(const std::vector<float>& values) {
    ++draws_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double deviation = values[i] - expected_[i];
      sums_[i] += deviation;
      squares_[i] += deviation * deviation;
    }
  }

  /// Values whose mean is off by more than five of its standard errors, and by more than floats are
  /// rounded.
  std::size_t biased() const {
    const auto magnitude = [](double a, double b) { return std::abs(a) < std::abs(b); };
    const double rounding = 2e-6 * std::abs(*std::ranges::max_element(expected_, magnitude));
    std::size_t count = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const double mean = sums_[i] / draws_;
      const double variance = (squares_[i] / draws_ - mean * mean) / (draws_ - 1);
      count += std::abs(mean) > 5 * std::sqrt(std::max(variance, 0.0)) + rounding ? 1u : 0u;
    }
    return count;
  }

 private:
  std::vector<double> expected_, sums_, squares_;
  double draws_ = 0;
};

// Both are linear in the errors, and a rounded error has the mean of what it is rounded from, given
// those above it. So no layer adds a bias, however many there are.
TEST_CASE("mean errors over seeds of rounding are those of float errors and the same weights") {
  const Case upper({.height = 4, .width = 4, .in_channels = 32, .out_channels = 32}, false);
  const Case lower({.height = 8, .width = 8, .in_channels = 16, .out_channels = 32, .stride = 2},
                   false);
  const std::vector<float> errors = draw(kSamples * upper.shape.out_count(), -1, 5);
  const auto between =
      Oracle(upper.shape).input_error({errors.begin(), errors.end()}, upper.rounded_weights);
  const auto below = Oracle(lower.shape).input_error(between, lower.rounded_weights);

  Descent through_upper(upper), through_lower(lower);
  Deviations one(between), two(below);
  constexpr std::uint64_t kSeeds = 4000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<float> dx = through_upper(errors, {.run_seed = seed, .step = 1});
    one.add(dx);
    two.add(through_lower(dx, {.run_seed = seed, .step = 2}));
  }
  CHECK(one.biased() == 0);
  CHECK(two.biased() == 0);
}

}  // namespace
}  // namespace eqt::model
