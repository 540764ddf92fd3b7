// SPDX-License-Identifier: Apache-2.0
#include "model/own/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "model/model_options.hpp"

namespace eqt::model::precision {
namespace {

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

}  // namespace

std::size_t TensorPlan::add_slice(Layout& layout, const std::string& name,
                                  std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  layout.push_back({name, std::move(shape), total_count(layout), count});
  return layout.size() - 1;
}

void TensorPlan::split(std::span<const std::string> freeze,
                       std::span<const std::string> untrained) {
  std::vector<std::string> names;
  for (const TensorSlice& slice : tensors) names.push_back(slice.name);
  std::vector<bool> is_frozen = frozen_parameters(names, freeze);
  for (const std::string& name : untrained)
    is_frozen[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())] = true;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    trained.push_back(is_frozen[i] ? std::nullopt : std::optional(parameters.size()));
    add_slice(is_frozen[i] ? frozen : parameters, tensors[i].name, tensors[i].shape);
  }
  check_trains(parameters.size(), tensors.size());
  const std::size_t count = total_count(parameters);
  std::size_t frozen_ones = 0, trained_ones = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].offset =
        trained[i] ? parameters[trained_ones++].offset : count + frozen[frozen_ones++].offset;
}

// Row by row; if blocks leave a rest, the last 16 values are drawn once more.
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

void reorder(std::span<const float> from, const std::vector<std::int64_t>& shape,
             std::span<float> to) {
  const auto channels = static_cast<std::size_t>(shape[1]);
  const auto window = static_cast<std::size_t>(shape[2] * shape[3]);
  std::size_t i = 0;
  for (std::size_t o = 0; o < static_cast<std::size_t>(shape[0]); ++o)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t w = 0; w < window; ++w) to[(o * window + w) * channels + c] = from[i++];
}

}  // namespace eqt::model::precision
