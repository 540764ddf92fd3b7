// SPDX-License-Identifier: Apache-2.0
#include "report/statistics.hpp"

#include <cmath>
#include <vector>

namespace eqt::report {

std::optional<double> Spread::standard_error() const {
  if (!deviation) return {};
  return *deviation / std::sqrt(static_cast<double>(known));
}

Figure finite(Figure figure) { return figure && std::isfinite(*figure) ? figure : Figure(); }

Spread spread_of(std::span<const Figure> figures) {
  std::vector<double> known;
  for (const Figure& figure : figures)
    if (finite(figure)) known.push_back(*figure);
  Spread spread{known.size(), figures.size(), 0, {}};
  if (known.empty()) return spread;
  const double count = static_cast<double>(known.size());
  for (const double x : known) spread.mean += x / count;
  if (known.size() < 2) return spread;
  double squares = 0;  // around the mean: the sum of squares alone would cancel
  for (const double x : known) squares += (x - spread.mean) * (x - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

}  // namespace eqt::report
