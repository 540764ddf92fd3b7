// SPDX-License-Identifier: Apache-2.0
// The catalogue of algorithms, and what several of them are built from.

#include "sync/algorithm.hpp"

#include "sync/algorithm_parts.hpp"
#include "sync/direction.hpp"

namespace eqt::sync {
namespace {

constexpr Named<Order> kOrders[] = {
    {Order::adapt_then_combine, "adapt-then-combine", "updated models are sent"},
    {Order::combine_then_adapt, "combine-then-adapt",
     "models are sent as they are at the beginning of the step, while gradients are computed"}};

constexpr Named<MomentumKind> kMomentumKinds[] = {
    {MomentumKind::local, "local", "each rank accumulates the gradients that it applies"},
    {MomentumKind::quasi_global, "quasi-global",
     "gossip, local-sgd: each rank accumulates how its model really moved"}};

}  // namespace

std::unique_ptr<Direction> make_direction(const AlgorithmRow& row,
                                          const AlgorithmSettings& settings) {
  if (row.make_direction != nullptr) return row.make_direction(settings.rules);
  if (settings.momentum_kind == MomentumKind::local) return nullptr;
  return make_quasi_global_momentum(settings.rules,
                                    {.momentum = settings.momentum, .nesterov = settings.nesterov});
}

std::optional<comm::Fault> fault_in_round(std::optional<comm::Fault> fault, StepId local_steps) {
  if (fault) fault->step /= local_steps;
  return fault;
}

const AlgorithmRow kNone = {
    .name = "none",
    .about = "no synchronization: each rank trains alone",
    .make = [](AlgorithmParts, const AlgorithmSettings&) {
      return BuiltAlgorithm{.synchronizer = std::make_unique<NoSynchronizer>()};
    }};

const Catalogue<AlgorithmRow>& AlgorithmRow::all() {
#define EQT_ALGORITHM(row) row,
  static const Catalogue<AlgorithmRow> rows = {
#include "sync/algorithms.def"
  };
#undef EQT_ALGORITHM
  return rows;
}

std::span<const Named<Order>> names_of(Order) { return kOrders; }
std::span<const Named<MomentumKind>> names_of(MomentumKind) { return kMomentumKinds; }

}  // namespace eqt::sync
