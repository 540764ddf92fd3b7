// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "analyze/subjects.hpp"
#include "codec/levels/level_design.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/sampling.hpp"
#include "theory/variance.hpp"

namespace eqt::analyze {
using figures::Curve;
using figures::curves_drawing;
using figures::draw_if_asked;
using figures::print_rows;

namespace {

constexpr std::array<std::string_view, 7> kUsualForLevels = {
    "qsgd", "qsgd-v", "nuqsgd", "elastiquant", "e-elastiquant", "alq", "amq"};
constexpr int kDraws = 50;

/// The worst vector, what it reaches exactly and when the codec itself encodes it in float32.
Row adversary_row(const Subject& subject) {
  const theory::AdversarialVector worst = theory::adversarial_vector(*subject.scheme);
  const std::vector<float> values = worst.values();
  const theory::Sample sample = theory::sample_codec(
      *subject.compressor, theory::one_segment(values.size()), values, kDraws, 1);
  return {{"heads", worst.heads},
          {"head", worst.head},
          {"bodies", worst.bodies},
          {"body", worst.body},
          {"reaches", worst.ratio},
          {"reaches_in_float32", theory::level_variance(*subject.scheme, values).exact_ratio()},
          {"measured", sample.variance.mean},
          {"measured_standard_error", sample.variance.standard_error()},
          {"draws", sample.variance.draws}};
}

Row row_of(const Subject& subject) {
  const theory::LevelScheme& scheme = *subject.scheme;
  const theory::LevelBounds bounds = theory::level_bounds(scheme);
  Row row = subject.row();
  row["levels"] = scheme.levels;
  row["ratio"] = bounds.ratio;
  row["smallest"] = bounds.smallest;
  row["phi"] = bounds.phi;
  row["theorem2"] = bounds.theorem2;
  row["worst_case"] = bounds.worst_case;
  row["adversary"] = adversary_row(subject);
  const int n = scheme.count();
  row["best_theta"] = codec::optimal_theta(n, scheme.bucket_size, scheme.norm);
  row["best_p"] = codec::optimal_p(n, scheme.bucket_size, scheme.norm);
  return row;
}

void print_levels(const Subject& subject, const Row& row) {
  fmt::print("\n{}:\n", subject.label());
  std::string line = " ";
  for (const double level : subject.scheme->levels) {
    const std::string text = fmt::format(" {:.6g}", level);
    if (line.size() + text.size() > 100) {
      fmt::print("{}\n", line);
      line.assign(1, ' ');
    }
    line += text;
  }
  const Row& worst = row["adversary"];
  fmt::print("{}\n  worst vector: {} times {:.6g} and {} times {:.6g}, in parts of its norm\n",
             line, worst["heads"].get<std::size_t>(), worst["head"].get<double>(),
             worst["bodies"].get<std::size_t>(), worst["body"].get<double>());
}

figures::Drawing plot_of(const std::vector<Subject>& subjects) {
  std::vector<Curve> curves;
  for (const Subject& subject : subjects) {
    Curve curve{.title = subject.label(), .points = {}};
    for (std::size_t j = 1; j < subject.scheme->levels.size(); ++j)
      curve.points.emplace_back(static_cast<double>(j), subject.scheme->levels[j]);
    curves.push_back(std::move(curve));
  }
  return curves_drawing({.title = "Levels",
                         .x = "index",
                         .y = "level, in parts of the bucket's norm",
                         .log_x = false,
                         .log_y = true},
                        curves);
}

}  // namespace

void run_analyze_levels(const AnalyzeLevelsCommand& command) {
  const std::vector<Subject> subjects =
      analyzed_compressors(command.compressors, kUsualForLevels, 8192, "analyze levels");
  std::vector<Row> rows;
  for (const Subject& subject : subjects) {
    require_levels(subject, "analyze levels");
    rows.push_back(row_of(subject));
  }
  if (!command.output.json)
    fmt::print(
        "R: largest quotient of neighbouring levels; A: smallest level times the root of the "
        "bucket size;\n"
        "bound: (R-1)^2/(4R) + phi(A); worst: the least bound known; reaches: exact variance of "
        "the worst\n"
        "vector; measured: the same, encoded {} times; theta*, p*: of the sinh and exponential "
        "tables of\n"
        "least worst case.\n"
        "\n",
        kDraws);
  std::vector<RowColumn> columns = subject_columns();
  columns.insert(columns.end(), {{"ratio", "R"},
                                 {"smallest", "A"},
                                 {"phi", "phi(A)"},
                                 {"theorem2", "bound"},
                                 {"worst_case", "worst"},
                                 {"adversary/reaches", "reaches"},
                                 {"adversary/measured", "measured"},
                                 {"best_theta", "theta*", 5},
                                 {"best_p", "p*"}});
  print_rows(rows, columns, command.output.json);
  if (!command.output.json)
    for (std::size_t i = 0; i < subjects.size(); ++i) print_levels(subjects[i], rows[i]);
  draw_if_asked(command.output.plot, [&] { return plot_of(subjects); });
}

}  // namespace eqt::analyze
