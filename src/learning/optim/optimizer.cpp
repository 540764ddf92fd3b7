// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

namespace eqt::optim {
namespace {

constexpr std::string_view kSgdKeys[] = {"momentum", "nesterov", "momentum_kind"};
constexpr std::string_view kAdamWKeys[] = {"beta1", "beta2", "epsilon"};

constexpr OptimizerRow kOptimizers[] = {
    {OptimizerKind::sgd, "sgd", "stochastic gradient descent with momentum", kSgdKeys, 1},
    {OptimizerKind::adamw, "adamw", "AdamW: adaptive moments with decoupled weight decay",
     kAdamWKeys, 2},
};

}  // namespace

std::span<const OptimizerRow> names_of(OptimizerKind) { return kOptimizers; }

}  // namespace eqt::optim
