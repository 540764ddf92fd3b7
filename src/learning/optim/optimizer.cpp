// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

namespace eqt::optim {

const Catalogue<OptimizerRow>& OptimizerRow::all() {
#define EQT_OPTIMIZER(row) row,
  static const Catalogue<OptimizerRow> rows = {
#include "optim/optimizers.def"
  };
#undef EQT_OPTIMIZER
  return rows;
}

}  // namespace eqt::optim
