// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.hpp"

#include <map>
#include <string_view>

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

std::vector<Style> styles_of(const std::vector<Group>& groups) {
  std::map<std::string_view, std::size_t> seen;
  for (const Group& group : groups) seen[group.first().compressor] = 0;
  const bool one_compressor = seen.size() == 1;
  std::vector<Style> styles;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string& compressor = groups[i].first().compressor;
    if (one_compressor && groups.size() > 1) {
      styles.push_back({figures::colour(i), i / figures::colours().size(), i});
    } else {
      styles.push_back({figures::colour_of(compressor), seen[compressor]++, i});
    }
  }
  return styles;
}

}  // namespace eqt::report
