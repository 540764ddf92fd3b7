// SPDX-License-Identifier: Apache-2.0
// Networks in bf16, through the torch-free interface, and the conversions that they use.

#include "model/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "model/torch/bf16_kernels.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kCifar{3, 32, 32};

/// Networks that are made while it lives keep images in bf16 and convolve in float32.
struct Storage {
  Storage() { setenv("EQT_BF16", "storage", 1); }
  ~Storage() { unsetenv("EQT_BF16"); }
};

ModelOptions options_of(const ModelRow& model, Precision precision) {
  return {.model = model, .inputs = test::pictures(kCifar), .precision = precision};
}

std::vector<float> gradient_of(const ModelOptions& options, const data::Batch& batch) {
  const auto replica = make_replica(options);
  (void)replica->forward_backward(batch, {});
  return {replica->gradient().begin(), replica->gradient().end()};
}

/// The gradient in float32 at parameters that are rounded to bf16.
std::vector<float> gradient_of_rounded(const ModelOptions& options, const data::Batch& batch) {
  const auto replica = make_replica(options);
  std::vector<std::uint16_t> half(replica->parameters().size());
  narrow_to_bf16(replica->parameters(), half);
  widen_bf16(half, replica->parameters());
  (void)replica->forward_backward(batch, {});
  return {replica->gradient().begin(), replica->gradient().end()};
}

/// |a - b|^2 / |b|^2
double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    square += double{b[i]} * b[i];
  }
  return error / square;
}

TEST_CASE("bf16 is the nearest of its values, ties to even, on every instruction set") {
  std::vector<float> wide;
  for (std::uint32_t i = 0; i < 70'000; ++i) wide.push_back(std::bit_cast<float>(i * 61'357u));
  for (const std::uint32_t bits : {0x3F808000u, 0x3F818000u, 0x3F808001u, 0x7F7FFFFFu, 0x7F800000u,
                                   0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800001u, 0x80000000u, 0x00008000u})
    wide.push_back(std::bit_cast<float>(bits));
  test::for_each_simd_target([&] {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, wide.size()}) {
      const std::span from = std::span<const float>(wide).last(count);
      std::vector<std::uint16_t> half(count);
      std::vector<float> back(count);
      narrow_to_bf16(from, half);
      widen_bf16(half, back);
      bool nearest = true;
      for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(from[i])) {
          nearest = nearest && std::isnan(back[i]);
          continue;
        }
        // Floats of one sign are ordered as their bits are, evenly between two bf16 values.
        const auto bits = std::bit_cast<std::uint32_t>(from[i]);
        const std::uint32_t low = bits & 0xFFFF0000u, rest = bits - low;
        const bool up = rest > 0x8000u || (rest == 0x8000u && (low >> 16) % 2 == 1);
        const std::uint32_t expected = up ? low + 0x10000u : low;
        nearest = nearest && std::bit_cast<std::uint32_t>(back[i]) == expected;
      }
      CHECK(nearest);
    }
  });
}

TEST_CASE(
    "the gradient of a step in bf16 is float32's, within what rounding the weights alone changes") {
  struct Case {
    const ModelRow& model;
    const NormalizationRow& normalization;
  };
  using namespace models;
  using namespace normalizations;
  const auto [model, normalization] =
      GENERATE(Case{resnet20, batchnorm}, Case{resnet20, groupnorm}, Case{resnet20, evonorm_s0},
               Case{resnet20, range_batchnorm}, Case{resnet20, range_evonorm},
               Case{vgg11, batchnorm}, Case{alexnet, batchnorm}, Case{airbench_small, batchnorm});
  const auto batch = random_batch(16, kCifar);
  ModelOptions options = options_of(model, Precision::fp32);
  options.normalization = normalization;
  const std::vector<float> exact = gradient_of(options, batch);
  options.precision = Precision::bf16;
  const std::vector<float> native = gradient_of(options, batch);
  const Storage forced;
  const std::vector<float> stored = gradient_of(options, batch);
  // Values near the kink of a ReLU change sides with any rounding, and batch normalization
  // subtracts most of what remains: so the measure is float32 with weights that are rounded once.
  options.precision = Precision::fp32;
  const double scale = squared_error(gradient_of_rounded(options, batch), exact);
  const double native_error = squared_error(native, exact);
  const double stored_error = squared_error(stored, exact);
  INFO(model.name << " " << normalization.name << ": " << native_error << " " << stored_error
                  << ", weights alone " << scale);
  CHECK(native_error < 5 * scale);
  CHECK(stored_error < 5 * scale);
  if (normalization.name == evonorm_s0.name)
    CHECK(std::max(native_error, stored_error) < 1e-4);  // smooth
}

TEST_CASE("a step in bf16 repeats exactly, and goes on from parameters and buffers alone") {
  const auto batch = random_batch(8, kCifar);
  const ModelOptions options = options_of(models::resnet20, Precision::bf16);
  const auto first = make_replica(options), second = make_replica(options);
  const double loss = first->forward_backward(batch, {});
  CHECK(std::isfinite(loss));
  std::ranges::transform(first->parameters(), first->gradient(), first->parameters().begin(),
                         [](float x, float g) { return x - 0.1f * g; });
  std::ranges::copy(first->parameters(), second->parameters().begin());
  std::ranges::copy(first->buffers(), second->buffers().begin());
  CHECK(first->forward_backward(batch, {}) == second->forward_backward(batch, {}));
  CHECK(std::ranges::equal(first->gradient(), second->gradient()));
  CHECK(std::ranges::equal(first->buffers(), second->buffers()));
  CHECK(first->evaluate(batch).loss_sum == second->evaluate(batch).loss_sum);
}

TEST_CASE("every network of pictures computes in bf16; others have no 8-bit operands") {
  for (const auto& entry : ModelRow::all()) {
    const ModelRow& model = *entry;
    INFO(model.name);
    if (model.torch_only) {
      CHECK_THROWS_WITH(
          make_replica(options_of(model, Precision::int8)),
          Catch::Matchers::ContainsSubstring("model.precision: expected \"fp32\" or \"bf16\""));
    }
    if (!model.images_only) continue;
    const auto replica = make_replica(options_of(model, Precision::bf16));
    CHECK(std::isfinite(replica->forward_backward(random_batch(2, kCifar), {})));
  }
}

TEST_CASE("a step in bf16 needs about half of float32's memory") {
  const auto bytes = [](Precision precision) {
    return static_cast<double>(
        measure_network_memory(options_of(models::resnet20, precision), 64, 64).gradient_bytes);
  };
  CHECK(bytes(Precision::bf16) < 0.6 * bytes(Precision::fp32));
}

}  // namespace
}  // namespace eqt::model
