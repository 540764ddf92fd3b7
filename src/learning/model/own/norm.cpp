// SPDX-License-Identifier: Apache-2.0
#include "model/own/norm.hpp"

namespace eqt::model::precision {

template <typename Operand>
std::unique_ptr<Norm<Operand>> make_norm(const Plan& plan, const Branch& branch) {
  return branch.norm && plan.groups > 0 ? make_group_norm<Operand>(plan, branch)
                                        : make_batch_norm<Operand>(plan, branch);
}

template std::unique_ptr<Norm<std::int8_t>> make_norm(const Plan&, const Branch&);
template std::unique_ptr<Norm<float>> make_norm(const Plan&, const Branch&);

}  // namespace eqt::model::precision
