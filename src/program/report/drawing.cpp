// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.hpp"

namespace eqt::report {

Drawings drawings_of(const std::vector<Group>& groups) {
  Drawings drawings;
  draw_pareto(groups, drawings);
  draw_curves(groups, drawings);
  draw_bars(groups, drawings);
  draw_classes(groups, drawings);
  draw_confusions(groups, drawings);
  return drawings;
}

}  // namespace eqt::report
