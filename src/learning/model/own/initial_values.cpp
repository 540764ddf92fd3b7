// SPDX-License-Identifier: Apache-2.0
#include "model/own/initial_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <string_view>
#include <vector>

namespace eqt::model::precision {
namespace {

using Twister = std::mt19937;

/// The natural logarithm of a positive number, by the series of the inverse hyperbolic tangent: C
/// libraries differ in the last bit.
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1), square = t * t;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * t * sum + exponent * std::numbers::ln2;
}

struct Direction {
  double cosine, sine;
};

/// Returns cosine and sine of an angle in turns, from 0 to 1, by Taylor's series in an eighth of a
/// turn.
Direction direction(double turns) {
  const int quarter = static_cast<int>(4 * turns + 0.5);
  const double x = 2 * std::numbers::pi * (turns - 0.25 * quarter), square = x * x;
  double sine = 1, cosine = 1;
  for (int k = 16; k >= 2; k -= 2) {
    sine = 1 - sine * square / (k * (k + 1));
    cosine = 1 - cosine * square / (k * (k - 1));
  }
  sine *= x;
  switch (quarter % 4) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

/// Draws a number from 0 to 1, without 1, from the lowest 24 bits of the next 32.
double uniform(Twister& random) {
  constexpr std::uint32_t kBits = 24;
  return static_cast<double>(random() & ((1u << kBits) - 1)) * (1.0 / (1u << kBits));
}

constexpr std::size_t kBlock = 16;  // half of them radii, half of them angles

/// Replaces uniform values of a block by normal ones.
void make_normal(std::span<float> block, double deviation) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    float &first = block[i], &second = block[i + kBlock / 2];
    const double radius = std::sqrt(-2 * logarithm(1.0 - static_cast<double>(first)));
    const Direction to = direction(static_cast<double>(second));
    first = static_cast<float>(radius * to.cosine * deviation);
    second = static_cast<float>(radius * to.sine * deviation);
  }
}

/// Row by row; if blocks leave a rest, the last 16 values are drawn once more.
/// @pre at least 16 values
void draw_normal(Twister& random, double deviation, std::span<float> out) {
  const auto fill = [&](std::span<float> some) {
    for (float& value : some) value = static_cast<float>(uniform(random));
  };
  fill(out);
  for (std::size_t i = 0; i + kBlock <= out.size(); i += kBlock)
    make_normal(out.subspan(i, kBlock), deviation);
  if (out.size() % kBlock == 0) return;
  fill(out.last(kBlock));
  make_normal(out.last(kBlock), deviation);
}

void draw_uniform(Twister& random, std::size_t inputs, std::span<float> out) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  const auto from = static_cast<float>(-bound), width = static_cast<float>(bound) - from;
  for (float& value : out) value = static_cast<float>(uniform(random)) * width + from;
}

/// Reorders values from (out, in, rows, columns) to channels last.
void reorder(std::span<const float> from, const std::vector<std::int64_t>& shape,
             std::span<float> to) {
  const auto channels = static_cast<std::size_t>(shape[1]);
  const auto window = static_cast<std::size_t>(shape[2] * shape[3]);
  std::size_t i = 0;
  for (std::size_t o = 0; o < static_cast<std::size_t>(shape[0]); ++o)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t w = 0; w < window; ++w) to[(o * window + w) * channels + c] = from[i++];
}

/// The linear layer that the slice belongs to; null: none.
const Dense* dense_of(const Plan& plan, std::size_t slice) {
  const auto has = [&](const Dense& dense) { return dense.weight == slice || dense.bias == slice; };
  if (has(plan.last)) return &plan.last;
  return plan.hidden && has(*plan.hidden) ? &*plan.hidden : nullptr;
}

void fill(const Layout& layout, std::string_view zeros, std::span<float> values) {
  for (const TensorSlice& slice : layout)
    std::ranges::fill(values.subspan(slice.offset, slice.count),
                      slice.name.ends_with(zeros) ? 0.0f : 1.0f);
}

}  // namespace

void draw_initial_values(const Plan& plan, std::uint64_t seed, std::span<float> parameters,
                         std::span<float> buffers) {
  fill(plan.parameters, ".bias", parameters);
  fill(plan.buffers, ".running_mean", buffers);
  Twister random(static_cast<std::uint32_t>(seed));
  std::vector<float> row_major;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const TensorSlice& slice = plan.parameters[i];
    const std::span<float> values = parameters.subspan(slice.offset, slice.count);
    if (slice.shape.size() == 4) {
      row_major.resize(slice.count);
      const auto fan_out = static_cast<double>(slice.shape[0] * slice.shape[2] * slice.shape[3]);
      draw_normal(random, std::sqrt(2 / fan_out), row_major);
      reorder(row_major, slice.shape, values);
    } else if (const Dense* const dense = dense_of(plan, i)) {
      draw_uniform(random, dense->in, values);
    }
  }
}

}  // namespace eqt::model::precision
