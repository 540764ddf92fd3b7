#include "report/script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "metrics/gnuplot.hpp"
#include "report/text.hpp"

namespace eqt::report {
namespace {

// M. Okabe, K. Ito, "Color Universal Design" (2008), without black and yellow: they vanish on a
// dark or a light page.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
// As many as share no factor with the colours: no two of the first 66 points look alike.
constexpr std::array kShapes = {7, 5, 9, 11, 13, 6, 4, 8, 10, 12, 2};
constexpr std::array kDashes = {"1", "'-'", "'.'", "'-.'"};

constexpr std::size_t kLongestLabel = 44;
constexpr int kPlotHeight = 400;    // without key
constexpr int kKeyRow = 22;         // [pixels]
constexpr int kKeyWidth = 560;      // [pixels], of a plot of 640
constexpr std::size_t kLetter = 8;  // [pixels]
constexpr std::size_t kSample = 60;

}  // namespace

std::string data_text(Figure value) {
  return finite(value) ? fmt::format("{:.9g}", *value) : "NaN";
}

std::string label_text(std::string_view label) {
  return metrics::gnuplot_quoted(shortened(label, kLongestLabel));
}

std::string line_style(std::size_t index) {
  return fmt::format("lc rgb '{}' dt {}", kColours[index % kColours.size()],
                     kDashes[index / kColours.size() % kDashes.size()]);
}

std::string point_style(std::size_t index) {
  return fmt::format("pt {}", kShapes[index % kShapes.size()]);
}

std::string frame(std::string_view title, std::string_view x, std::string_view y, Key key) {
  // The title is the key's own where there is one: gnuplot would put the key above any other.
  const char* head = key == Key::none
                         ? "set key off\nset title"
                         : "set key tmargin center horizontal samplen 3 font ',12' title";
  return fmt::format(
      "set xlabel {}\nset ylabel {}\n"
      "set grid lc rgb 'gray' dt '.'\nset border 3\nset tics nomirror\n{} {}\n",
      metrics::gnuplot_quoted(x), metrics::gnuplot_quoted(y), head, metrics::gnuplot_quoted(title));
}

int height_with_key(const std::vector<std::string>& labels) {
  std::size_t widest = 1;
  for (const std::string& label : labels)
    widest = std::max(widest, std::min(width_of(label), kLongestLabel));
  const int columns = std::max(1, kKeyWidth / static_cast<int>(widest * kLetter + kSample));
  const int rows = (static_cast<int>(labels.size()) + columns - 1) / columns;
  return kPlotHeight + kKeyRow * rows;
}

bool wants_logarithm(const std::vector<double>& values) {
  constexpr double kWide = 10;
  if (values.empty()) return false;
  const auto [least, most] = std::ranges::minmax(values);
  return least > 0 && most > kWide * least;
}

std::string bar_rows(const std::vector<std::string>& labels) {
  std::string tics;
  for (std::size_t i = 0; i < labels.size(); ++i)
    tics += fmt::format("{}{} {}", i == 0 ? "" : ", ", label_text(labels[i]), i);
  return fmt::format("set ytics ({}) scale 0\nset yrange [{}:-0.5]\nset xrange [0:*]\n", tics,
                     static_cast<double>(labels.size()) - 0.5);
}

int height_of_bars(std::size_t rows) { return 150 + 26 * static_cast<int>(rows); }

}  // namespace eqt::report
