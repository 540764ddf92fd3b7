// SPDX-License-Identifier: Apache-2.0
#include "model/precision/norm.hpp"

namespace eqt::model::precision {

std::unique_ptr<Norm> make_norm(const Plan& plan, const Branch& branch) {
  return branch.norm && plan.groups > 0 ? make_group_norm(plan, branch)
                                        : make_batch_norm(plan, branch);
}

}  // namespace eqt::model::precision
