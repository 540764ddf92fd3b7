// SPDX-License-Identifier: Apache-2.0
// How far gradients of 8-bit training are from those of float32, for a trained network.
//
// gradient_fidelity MODEL NORMALIZATION DATA PATH WEIGHTS|- [BATCHES [BATCH]]; prints a table in
// Markdown. DATA and PATH are data.name and data.path; "-" takes the initial weights.
//
// With g the float32 gradient of a batch and q, q' two 8-bit ones with random bits of their own,
// means over the batches of
//   error   |q - g|^2 / |g|^2
//   bias    (q - g)(q' - g) / |g|^2: what random rounding does not average out
//   cosine  of q and g
// The rows "weights" and "minibatch" are for comparison: float32 with rounded weights of
// convolutions, and the spread of g between batches on the scale of error.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/dataset.hpp"
#include "model/own/own_replica.hpp"
#include "model/replica.hpp"
#include "support/rounded_weights.hpp"

namespace {

using namespace eqt;

struct Measured {
  double error = 0, bias = 0, cosine = 0;
};

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<float> difference(std::span<const float> a, std::span<const float> b) {
  std::vector<float> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

/// The 8-bit gradient of a batch; `draw` names the random bits.
std::vector<float> rounded_gradient(model::ModelOptions options, const model::Int8Options& choice,
                                    Rank draw, model::Replica& exact, const data::Batch& batch) {
  options.int8 = choice;
  options.rank = draw;
  const auto replica = model::make_int8_replica(options);
  std::ranges::copy(exact.parameters(), replica->parameters().begin());
  std::ranges::copy(exact.buffers(), replica->buffers().begin());
  replica->forward_backward(batch, {});
  return copy_of(replica->gradient());
}

Measured compare(std::span<const float> g, std::span<const float> first,
                 std::span<const float> second) {
  const double norm = dot(g, g);
  const auto a = difference(first, g), b = difference(second, g);
  return {.error = dot(a, a) / norm,
          .bias = dot(a, b) / norm,
          .cosine = dot(first, g) / std::sqrt(norm * dot(first, first))};
}

struct Choice {
  const char* name;
  model::Int8Options options;
};

std::vector<Choice> choices() {
  using namespace model;
  return {
      {"sample", {}},
      {"tensor", {.ranges = Int8Ranges::tensor}},
      {"paper, float dW", {.ranges = Int8Ranges::paper, .weight_gradient = WeightGradient::fp32}},
      {"errors to nearest", {.error_rounding = ErrorRounding::nearest}},
      {"14-bit dW", {.weight_gradient = WeightGradient::int16}},
      {"float dW", {.weight_gradient = WeightGradient::fp32}}};
}

void run(int argc, char** argv) {
  const std::string weights = argv[5];
  const int batches = argc > 6 ? std::atoi(argv[6]) : 8;
  const int batch_size = argc > 7 ? std::atoi(argv[7]) : 64;
  if (batches < 2 || batch_size < 1)
    fail(Kind::usage, "expected at least 2 batches of at least 1 sample");
  model::set_threads(1);
  const data::DatasetPair sets =
      data::open_dataset({.set = data::DatasetRow::all().at(argv[3]), .path = argv[4]});
  const auto row = model::ModelRow::all().at(argv[1]);
  const auto normalization = model::NormalizationRow::all().at(argv[2]);
  const auto target = sets.train->target();
  const int classes = sets.train->classes();
  const model::ModelOptions network{.model = row,
                                    .inputs = sets.train->inputs(),
                                    .target = target,
                                    .outputs = classes,
                                    .normalization = normalization};
  const auto exact = model::make_replica(network), coarse = model::make_replica(network);
  if (weights != "-") {
    exact->load_weights(weights);
    coarse->load_weights(weights);
  }
  test::round_weights(*coarse);

  const std::vector<Choice> all = choices();
  std::vector<Measured> sums(all.size() + 1);
  std::vector<double> mean(exact->gradient().size());
  double norms = 0;
  const auto add = [&](Measured& to, const Measured& one) {
    to.error += one.error / batches;
    to.bias += one.bias / batches;
    to.cosine += one.cosine / batches;
  };
  for (int i = 0; i < batches; ++i) {
    std::vector<std::size_t> indices(static_cast<std::size_t>(batch_size));
    for (std::size_t k = 0; k < indices.size(); ++k)
      indices[k] = (static_cast<std::size_t>(i) * indices.size() + k) % sets.train->size();
    data::Batch batch;
    sets.train->read(indices, {}, batch);
    exact->forward_backward(batch, {});
    const std::vector<float> g = copy_of(exact->gradient());
    norms += dot(g, g) / batches;
    for (std::size_t k = 0; k < g.size(); ++k) mean[k] += static_cast<double>(g[k]) / batches;
    for (std::size_t c = 0; c < all.size(); ++c)
      add(sums[c], compare(g, rounded_gradient(network, all[c].options, 2 * i, *exact, batch),
                           rounded_gradient(network, all[c].options, 2 * i + 1, *exact, batch)));
    coarse->forward_backward(batch, {});
    add(sums.back(), compare(g, coarse->gradient(), coarse->gradient()));
  }
  double squared_mean = 0;
  for (const double m : mean) squared_mean += m * m;
  const double spread = (norms - squared_mean) * batches / (batches - 1) / norms;

  fmt::print("| | error | bias | cosine |\n|---|---|---|---|\n");
  for (std::size_t c = 0; c < sums.size(); ++c)
    fmt::print("| {} | {:.5f} | {:.5f} | {:.5f} |\n", c < all.size() ? all[c].name : "weights",
               sums[c].error, sums[c].bias, sums[c].cosine);
  fmt::print("| minibatch | {:.3f} | | |\n", spread);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6)
    fail(Kind::usage,
         "expected MODEL NORMALIZATION DATA PATH WEIGHTS|- [BATCHES [BATCH]], found {} arguments",
         argc - 1);
  run(argc, argv);
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
