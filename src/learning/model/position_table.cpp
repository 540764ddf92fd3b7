// SPDX-License-Identifier: Apache-2.0
#include "model/position_table.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::model {
namespace {

/// Keys's cubic of a distance.
double cubic(double distance) {
  constexpr double kA = -0.5;
  const double x = std::abs(distance);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

/// The places that a place of a resampled row is made of.
struct Taps {
  std::size_t first = 0;
  std::vector<double> weights;  // their sum is 1
};

Taps taps_of(std::size_t place, std::size_t from, std::size_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(step, 1.0);
  const double centre = (static_cast<double>(place) + 0.5) * step, reach = 2 * stretch;
  const double begin = std::max(std::floor(centre - reach + 0.5), 0.0);
  const double end = std::min(std::floor(centre + reach + 0.5), static_cast<double>(from));
  Taps taps{.first = static_cast<std::size_t>(begin), .weights = {}};
  double sum = 0;
  for (double at = begin; at < end; ++at) {
    taps.weights.push_back(cubic((at - centre + 0.5) / stretch));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

/// Resamples the middle one of three sides.
std::vector<double> resample(std::span<const double> x, std::size_t outer, std::size_t from,
                             std::size_t inner, std::size_t to) {
  std::vector<double> out(outer * to * inner, 0.0);
  for (std::size_t place = 0; place < to; ++place) {
    const Taps taps = taps_of(place, from, to);
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t k = 0; k < taps.weights.size(); ++k)
        for (std::size_t i = 0; i < inner; ++i)
          out[(o * to + place) * inner + i] +=
              taps.weights[k] * x[(o * from + taps.first + k) * inner + i];
  }
  return out;
}

/// Returns the side of a table's grid, if it is square.
std::size_t grid_side(std::span<const std::int64_t> sizes) {
  return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(sizes[1] - 1))));
}

}  // namespace

std::vector<float> resample_grid(std::span<const float> values, std::size_t rows,
                                 std::size_t columns, std::size_t width, std::size_t to_rows,
                                 std::size_t to_columns) {
  EQT_CHECK(values.size() == rows * columns * width && rows > 0 && columns > 0,
            "{} values of {} x {} x {}", values.size(), rows, columns, width);
  const std::vector<double> x(values.begin(), values.end());
  const std::vector<double> wide = resample(x, rows, columns, width, to_columns);
  const std::vector<double> all = resample(wide, 1, rows, to_columns * width, to_rows);
  return {all.begin(), all.end()};
}

bool is_position_table(const VitPlan& plan, std::string_view name,
                       std::span<const std::int64_t> sizes) {
  if (!name.ends_with("pos_embed") || sizes.size() != 3 || sizes[0] != 1 || sizes[1] < 2 ||
      sizes[2] != plan.hidden)
    return false;
  const std::size_t side = grid_side(sizes);
  return side * side == static_cast<std::size_t>(sizes[1] - 1);
}

std::optional<std::vector<float>> resized_positions(const VitPlan& plan, std::string_view name,
                                                    std::span<const std::int64_t> sizes,
                                                    std::span<const float> values) {
  const auto width = static_cast<std::size_t>(plan.hidden);
  if (!is_position_table(plan, name, sizes) || values.size() % width != 0 ||
      values.size() / width != static_cast<std::size_t>(sizes[1]))
    return {};
  const std::size_t side = grid_side(sizes);
  std::vector<float> table(values.begin(), values.begin() + plan.hidden);  // the class token's
  const std::vector<float> grid =
      resample_grid(values.subspan(width), side, side, width, static_cast<std::size_t>(plan.rows),
                    static_cast<std::size_t>(plan.columns));
  table.insert(table.end(), grid.begin(), grid.end());
  return table;
}

weights::FileNames file_names_of(const VitPlan& plan) {
  return {.can_resize =
              [plan](std::string_view name, std::span<const std::int64_t> sizes) {
                return is_position_table(plan, name, sizes);
              },
          .resized =
              [plan](std::string_view name, std::span<const std::int64_t> sizes,
                     std::span<const float> values) {
                return resized_positions(plan, name, sizes, values);
              }};
}

}  // namespace eqt::model
