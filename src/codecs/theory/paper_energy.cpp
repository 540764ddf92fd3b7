// SPDX-License-Identifier: Apache-2.0
#include "theory/paper_energy.hpp"

#include <array>

#include "core/error.hpp"

namespace eqt::theory {
namespace {

using theory::Phase;
using theory::RangeNorm;

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

std::span<const PublishedCost> published_costs() { return kTable; }

theory::NetworkShape shape_of(std::string_view model) {
  if (model == "resnet20") return theory::residual_network(3);
  if (model == "resnet54") return theory::residual_network(8);
  EQT_CHECK(model == "vgg11", "no shape of {}", model);
  return theory::vgg11();
}

theory::NetworkShape paper_energy_shape(std::string_view model) {
  return model == "resnet54" ? theory::residual_network(18) : shape_of(model);
}

}  // namespace eqt::theory
