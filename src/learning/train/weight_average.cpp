// SPDX-License-Identifier: Apache-2.0
#include "train/weight_average.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/error.hpp"

namespace eqt::train {
namespace {

void blend(std::span<float> average, std::span<const float> values, float share) {
  EQT_CHECK(average.size() == values.size(), "an average of {} values, {} expected", average.size(),
            values.size());
  float* const a = average.data();
  const float* const x = values.data();
  for (std::size_t i = 0; i < average.size(); ++i) a[i] += share * (x[i] - a[i]);
}

}  // namespace

void WeightAverage::make_room(model::Replica& replica) {
  if (parameters_.span().size() == replica.parameters().size()) return;
  parameters_ = FlatBuffer(replica.parameters().size());
  buffers_ = FlatBuffer(replica.buffers().size());
}

void WeightAverage::start(model::Replica& replica) {
  make_room(replica);
  std::ranges::copy(replica.parameters(), parameters_.span().begin());
  std::ranges::copy(replica.buffers(), buffers_.span().begin());
}

void WeightAverage::update(model::Replica& replica, StepId step) {
  const auto t = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  const auto share = static_cast<float>(1 - decay);
  blend(parameters_.span(), replica.parameters(), share);
  blend(buffers_.span(), replica.buffers(), share);
}

void WeightAverage::exchange_with(model::Replica& replica) {
  std::ranges::swap_ranges(parameters_.span(), replica.parameters());
  std::ranges::swap_ranges(buffers_.span(), replica.buffers());
}

void WeightAverage::visit_state(StateVisitor& visitor, model::Replica& replica, Across models) {
  make_room(replica);
  visitor.values("parameters", parameters_.span(), models);
  visitor.values("buffers", buffers_.span(), models == Across::same ? Across::mean : models);
}

}  // namespace eqt::train
