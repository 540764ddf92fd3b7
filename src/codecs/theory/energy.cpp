// SPDX-License-Identifier: Apache-2.0
#include "theory/energy.hpp"

#include <array>

#include "core/error.hpp"

namespace eqt::theory {
namespace {

constexpr double kPicojoule = 1e-12;

Operations operator*(double factor, const Operations& counts) {
  return {factor * counts.adds, factor * counts.muls};
}

double squared(double x) { return x * x; }

/// Multiply-adds of one pass over a batch.
double products_of(const Convolution& c, int batch, Accounting accounting) {
  const double pairs = double{1} * batch * c.in * c.out;
  if (accounting == Accounting::physical)
    return pairs * squared(c.kernel) * squared(c.output_size());
  return pairs * squared(c.kernel) * squared(c.size + (c.size - 3.0) / c.stride + 1);
}

Operations norm_operations(const Map& map, int batch, Phase phase, RangeNorm norm) {
  const double values = batch * static_cast<double>(map.values()), channels = map.channels;
  const bool training = phase == Phase::training;
  if (norm == RangeNorm::evo)
    return training ? Operations{6 * values, 10 * values + 5 * channels}
                    : Operations{2 * values, 4 * values + 2 * channels};
  return training ? Operations{9 * values, 6 * values + 7 * channels}
                  : Operations{3 * values, 2 * values + 3 * channels};
}

/// Values that are rounded to 8 bits: inputs of convolutions and norms, and weights when they
/// change.
double quantised_values(const NetworkShape& shape, int batch, bool weights) {
  double values = 0;
  for (const Convolution& c : shape.convolutions)
    values += double{1} * batch * c.in * squared(c.size);
  for (const Map& norm : shape.norms) values += batch * static_cast<double>(norm.values());
  return values + (weights ? static_cast<double>(shape.convolution_weights()) : 0);
}

/// Float32 or int8 values moved to or from DRAM in one pass over a batch.
struct Moved {
  double activations = 0, weights = 0;
};

Moved moved_values(const NetworkShape& shape, int batch) {
  Moved moved;
  for (const Convolution& c : shape.convolutions)
    moved.activations += batch * (c.in * squared(c.size) + c.out * squared(c.output_size()));
  for (const Map& norm : shape.norms)
    moved.activations += 2.0 * batch * static_cast<double>(norm.values());
  for (const Map& block : shape.blocks)
    moved.activations += 3.0 * batch * static_cast<double>(block.values());
  for (const Map& pool : shape.pools)
    moved.activations += batch * static_cast<double>(pool.values());
  for (const Linear& l : shape.linears) moved.activations += batch * (l.in + l.out);
  moved.weights = static_cast<double>(shape.convolution_weights() + shape.linear_weights());
  return moved;
}

/// Returns what an access to a value in DRAM costs [pJ].
double access_cost(Precision precision, const OperationCosts& costs) {
  if (precision == Precision::int8) return costs.access8;
  return precision == Precision::bfloat16 ? costs.access16 : costs.access32;
}

constexpr Phase kTrain = Phase::training, kInfer = Phase::inference;
constexpr RangeNorm kBatch = RangeNorm::batch, kEvo = RangeNorm::evo;

constexpr std::array kTable{
    PublishedCost{kTrain, "resnet20", kBatch, 170.6, 46.15, 68.75, 3.45},
    PublishedCost{kTrain, "resnet20", kEvo, 124.6, 35.43, 68.82, 3.45},
    PublishedCost{kTrain, "resnet54", kBatch, 424.85, 117.05, 392.55, 19.69},
    PublishedCost{kTrain, "resnet54", kEvo, 308.85, 88.05, 392.95, 19.71},
    PublishedCost{kTrain, "vgg11", kBatch, 300.48, 210.95, 173.56, 8.69},
    PublishedCost{kTrain, "vgg11", kEvo, 263.48, 201.7, 173.61, 8.7},
    PublishedCost{kInfer, "resnet20", kBatch, 1.04, 0.26, 22.92, 1.16},
    PublishedCost{kInfer, "resnet20", kEvo, 1.04, 0.26, 22.96, 1.16},
    PublishedCost{kInfer, "resnet54", kBatch, 2.89, 0.72, 130.85, 6.6},
    PublishedCost{kInfer, "resnet54", kEvo, 2.89, 0.72, 131.07, 6.61},
    PublishedCost{kInfer, "vgg11", kBatch, 36.22, 9.01, 57.85, 2.9},
    PublishedCost{kInfer, "vgg11", kEvo, 36.22, 9.01, 57.88, 2.9},
};

}  // namespace

Operations& Operations::operator+=(const Operations& other) {
  adds += other.adds;
  muls += other.muls;
  return *this;
}

double energy_of(const MultiplyAdds& products, const OperationCosts& costs) {
  return kPicojoule * (products.float32 * (costs.mul32 + costs.add32) +
                       products.bfloat16 * (costs.mul16 + costs.add32) +
                       products.int8 * (costs.mul8 + costs.add_int32));
}

OperationCounts count_operations(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                                 Precision precision, Accounting accounting) {
  const bool training = phase == Phase::training, physical = accounting == Accounting::physical;
  OperationCounts counts;
  for (const Convolution& c : shape.convolutions) {
    const double products = products_of(c, batch, accounting);
    counts.forward += {products, products};
  }
  for (const Map& map : shape.norms)
    counts.normalisation += norm_operations(map, batch, phase, norm);
  if (physical) {
    for (const Linear& l : shape.linears) {
      const double products = double{1} * batch * l.in * l.out;
      counts.forward += {products, products};
    }
    // In training the gradient of a sum is a copy, and that of a mean a product.
    for (const Map& block : shape.blocks)
      counts.skip_and_pool += {2.0 * batch * static_cast<double>(block.values()), 0};
    for (const Map& pool : shape.pools)
      counts.skip_and_pool += {batch * static_cast<double>(pool.values()),
                               (training ? 2.0 : 1.0) * batch * pool.channels};
  }
  if (training) {
    counts.input_gradient = counts.weight_gradient = counts.forward;
    // Momentum: v <- m v + g, w <- w - h v.
    const auto parameters = static_cast<double>(shape.parameters);
    if (physical) counts.update = {2 * parameters, 2 * parameters};
  }
  if (precision == Precision::int8)
    counts.quantisation = quantised_values(shape, batch, training) * Operations{2, 4};
  return counts;
}

MultiplyAdds step_products(const NetworkShape& shape, int batch, Phase phase, Precision precision) {
  const OperationCounts counts =
      count_operations(shape, batch, phase, RangeNorm::batch, precision, Accounting::physical);
  const double low = counts.forward.muls + counts.input_gradient.muls;
  const double gradients = counts.weight_gradient.muls;
  switch (precision) {
    case Precision::int8:
      return {.float32 = gradients, .int8 = low};
    case Precision::bfloat16:
      return {.bfloat16 = low + gradients};
    default:
      return {.float32 = low + gradients};
  }
}

double paper_energy(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                    Precision precision, Accounting accounting) {
  EQT_CHECK(precision != Precision::bfloat16, "the table has no bfloat16");
  OperationCounts counts = count_operations(shape, batch, phase, norm, precision, accounting);
  Operations all = counts.forward;
  for (const Operations& part : {counts.input_gradient, counts.weight_gradient,
                                 counts.normalisation, counts.quantisation, counts.skip_and_pool})
    all += part;
  const OperationCosts costs;
  const bool low = precision == Precision::int8;
  return kPicojoule * (all.adds * (low ? costs.add8 : costs.add32) +
                       all.muls * (low ? costs.mul8 : costs.mul32));
}

StepEnergy step_energy(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                       Precision precision, const OperationCosts& costs) {
  const OperationCounts counts =
      count_operations(shape, batch, phase, norm, precision, Accounting::physical);
  const bool training = phase == Phase::training;
  const auto float32 = [&](const Operations& part) {
    return kPicojoule * (part.adds * costs.add32 + part.muls * costs.mul32);
  };
  StepEnergy energy;
  energy.forward = energy_of(step_products(shape, batch, Phase::inference, precision), costs);
  energy.backward =
      energy_of(step_products(shape, batch, phase, precision), costs) - energy.forward;
  energy.normalisation = float32(counts.normalisation);
  energy.quantisation = float32(counts.quantisation);
  energy.other = float32(counts.skip_and_pool);
  energy.update = float32(counts.update);
  const Moved moved = moved_values(shape, batch);
  const double access = access_cost(precision, costs);
  const double pass = (moved.activations + moved.weights) * access;
  // The backward pass moves a gradient for everything that the forward pass moved. Gradients of
  // weights need the activations again, in float32. The update reads weight, gradient and momentum,
  // and writes two of them.
  energy.memory = pass;
  if (training)
    energy.memory += pass + (moved.activations + moved.weights) * costs.access32 +
                     5 * static_cast<double>(shape.parameters) * costs.access32;
  energy.memory *= kPicojoule;
  return energy;
}

std::span<const PublishedCost> published_costs() { return kTable; }

NetworkShape shape_of(std::string_view model) {
  if (model == "resnet20") return residual_network(3);
  if (model == "resnet54") return residual_network(8);
  EQT_CHECK(model == "vgg11", "no shape of {}", model);
  return vgg11();
}

NetworkShape paper_energy_shape(std::string_view model) {
  return model == "resnet54" ? residual_network(18) : shape_of(model);
}

}  // namespace eqt::theory
