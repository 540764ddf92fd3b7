// SPDX-License-Identifier: Apache-2.0
#include "bench/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "data/batch.hpp"
#include "model/catalogue.hpp"
#include "model/own/plan.hpp"
#include "model/own/vision_transformer.hpp"

namespace eqt::bench {
namespace {

using int8::ConvolutionShape;
using int8::Kernels;

/// Draws integers in [-127, 127].
std::vector<std::int8_t> random_integers(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, static_cast<std::uint32_t>(RandomPurpose::synthetic)});
  std::vector<std::int8_t> q(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    q[i] = static_cast<std::int8_t>(static_cast<int>(stream.bounded(index, 255)) - 127);
  }
  return q;
}

/// The largest of every output channel is 127, so that their scales are 1.
std::vector<std::int8_t> weights_of(const ConvolutionShape& shape) {
  std::vector<std::int8_t> q = random_integers(shape.weight_count(), 3);
  const auto channels = static_cast<std::size_t>(shape.out_channels);
  for (std::size_t o = 0; o < channels; ++o) q[o * q.size() / channels] = 127;
  return q;
}

double seconds_of(const std::function<void()>& work, std::size_t calls) {
  const WorkStopwatch watch;
  for (std::size_t i = 0; i < calls; ++i) work();
  return watch.seconds() / static_cast<double>(calls);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<ConvolutionShape> layer_shapes(const std::string& model) {
  if (model.empty()) return {std::begin(kLayerShapes), std::end(kLayerShapes)};
  const Catalogue<model::ModelRow>& models = model::ModelRow::all();
  if (models.find(model) == nullptr)
    fail(Kind::usage, "--model: expected one of {}, found {}", models.names(), model);
  const model::ModelOptions options = {.model = models.at(model),
                                       .inputs = {data::image_spec({3, 32, 32})},
                                       .precision = model::Precision::int8};
  if (const auto plan = model::precision::vision_plan(options)) return products_of(*plan);
  const model::precision::Plan plan = model::precision::make_plan(options);
  std::vector<ConvolutionShape> shapes;
  for (const model::precision::Branch& branch : plan.branches)
    if (std::ranges::find(shapes, branch.shape) == shapes.end()) shapes.push_back(branch.shape);
  return shapes;
}

const char* title_of(Pass pass) {
  return pass == Pass::forward ? "forward" : pass == Pass::backward_input ? "dX" : "dW";
}

Layer::Layer(const ConvolutionShape& shape, Kernels kernels, std::vector<float> scales, bool small)
    : convolution_(shape, kernels),
      scales_(std::move(scales)),
      x_(random_integers(scales_.size() * shape.in_count(), 1)),
      error_(random_integers(scales_.size() * shape.out_count(), 2)),
      weights_(weights_of(shape)),
      results_{std::vector<float>(error_.size()), std::vector<float>(x_.size()),
               std::vector<float>(shape.weight_count())},
      scratch_bytes_(convolution_.scratch_bytes(static_cast<int>(scales_.size()))),
      scratch_(make_long_array<std::byte>(scratch_bytes_)) {
  if (small)
    for (std::int8_t& q : x_) q = static_cast<std::int8_t>(-1 - std::abs(q));
  convolution_.set_weights(std::vector<float>(weights_.begin(), weights_.end()));
}

void Layer::run(Pass pass) {
  const std::span scratch(scratch_.get(), scratch_bytes_);
  std::vector<float>& result = results_[index(pass)];
  if (pass == Pass::forward)
    convolution_.forward(x_, -128, scales_, result, scratch);
  else if (pass == Pass::backward_input)
    convolution_.backward_input(error_, scales_, result, scratch);
  else
    convolution_.add_weight_gradient(x_, -128, scales_, error_, scales_, result, scratch);
}

FloatLayer::FloatLayer(const ConvolutionShape& shape, int samples, const LayerIntegers& integers)
    : convolution_(shape),
      ones_(static_cast<std::size_t>(samples), 1),
      x_(integers.x.begin(), integers.x.end()),
      error_(integers.error.begin(), integers.error.end()),
      results_{std::vector<float>(error_.size()), std::vector<float>(x_.size()),
               std::vector<float>(shape.weight_count())},
      scratch_bytes_(convolution_.scratch_bytes(samples)),
      scratch_(make_long_array<std::byte>(scratch_bytes_)) {
  for (float& x : x_) x += 128;
  convolution_.set_weights(std::vector<float>(integers.weights.begin(), integers.weights.end()));
}

void FloatLayer::run(Pass pass) {
  const std::span scratch(scratch_.get(), scratch_bytes_);
  std::vector<float>& result = results_[index(pass)];
  if (pass == Pass::forward)
    convolution_.forward(x_, 0, ones_, result, scratch);
  else if (pass == Pass::backward_input)
    convolution_.backward_input(error_, ones_, result, scratch);
  else
    convolution_.add_weight_gradient(x_, 0, ones_, error_, ones_, result, scratch);
}

std::string describe(const ConvolutionShape& s) {
  return fmt::format("{0} x {0} {1} -> {2}, {3} / {4}", s.height, s.in_channels, s.out_channels,
                     s.kernel, s.stride);
}

void require_plain_results(const ConvolutionShape& shape, Kernels kernels) {
  const std::vector<float> scales = {1e-3f, 2e-3f};
  Layer layer(shape, kernels, scales), plain(shape, Kernels::scalar, scales);
  Layer unscaled(shape, kernels, {1, 1});
  FloatLayer floats(shape, 2, unscaled.integers());
  for (const Pass pass : kPasses) {
    layer.run(pass);
    plain.run(pass);
    if (layer.result(pass) != plain.result(pass))
      fail(Kind::bug, "convolution {} with {}: expected {} as plain loops give it, found another",
           describe(shape), name_of(kernels), title_of(pass));
    unscaled.run(pass);
    floats.run(pass);
    if (!near(unscaled.result(pass), floats.result(pass), kFloatTolerance))
      fail(Kind::bug, "convolution {} in float32: expected {} as {} gives it, found another",
           describe(shape), title_of(pass), name_of(kernels));
  }
}

bool near(std::span<const float> a, std::span<const float> b, double tolerance) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return a.size() == b.size() && difference <= tolerance * largest;
}

std::vector<double> median_seconds_in_turn(std::span<const std::function<void()>> works,
                                           double seconds) {
  const double turn = std::min(1e-3, seconds / 10);
  std::vector<std::size_t> calls;
  for (const auto& work : works) {
    work();  // touches memory for the first time
    const double one = std::max(seconds_of(work, 1), 1e-7);
    calls.push_back(1 + static_cast<std::size_t>(turn / one));
  }
  std::vector<std::vector<double>> times(works.size());
  const Stopwatch total;
  do {
    for (std::size_t i = 0; i < works.size(); ++i)
      times[i].push_back(seconds_of(works[i], calls[i]));
  } while (times.front().size() < 3 ||
           total.seconds() < seconds * static_cast<double>(works.size()));
  std::vector<double> medians;
  for (std::vector<double>& of_work : times) medians.push_back(median(std::move(of_work)));
  return medians;
}

}  // namespace eqt::bench
