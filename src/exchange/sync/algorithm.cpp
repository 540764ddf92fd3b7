// SPDX-License-Identifier: Apache-2.0
#include "sync/algorithm.hpp"

namespace eqt::sync {
namespace {

constexpr std::string_view kLocalSgdKeys[] = {"local_steps",
                                              "post_local_epochs",
                                              "local_steps_base",
                                              "local_steps_most",
                                              "local_steps_alpha",
                                              "delay",
                                              "outer.learning_rate",
                                              "outer.momentum",
                                              "outer.nesterov",
                                              "outer.by_rate",
                                              "outer.mixing",
                                              "fragments",
                                              "quorum",
                                              "grace_seconds"};

constexpr std::string_view kLaqKeys[] = {"laq_bits", "laq_history", "laq_weight", "laq_silence"};

constexpr Named<Order> kOrders[] = {
    {Order::adapt_then_combine, "adapt-then-combine", "updated models are sent"},
    {Order::combine_then_adapt, "combine-then-adapt",
     "models are sent as they are at the beginning of the step, while gradients are computed"}};

constexpr Named<MomentumKind> kMomentumKinds[] = {
    {MomentumKind::local, "local", "each rank accumulates the gradients that it applies"},
    {MomentumKind::quasi_global, "quasi-global",
     "gossip, local-sgd: each rank accumulates how its model really moved"}};

}  // namespace

const AlgorithmRow kAllreduce = {.name = "allreduce",
                                 .about = "the mean of all ranks' gradients in every step",
                                 .averages_gradients = true};

const AlgorithmRow kLocalSgd = {
    .name = "local-sgd",
    .about = "the mean of all ranks' models every synchronization.local_steps",
    .keys = kLocalSgdKeys,
    .averages_models = true,
    .quasi_global = true,
    .models_remembered = 1};

const AlgorithmRow kLaq = {
    .name = "laq",
    .about =
        "the mean of all ranks' gradients, of which a rank sends changes that matter (LAQ, LAG)",
    .keys = kLaqKeys,
    .lazy = true,
    .models_remembered = 4};

const AlgorithmRow kNone = {.name = "none", .about = "no synchronization: each rank trains alone"};

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
