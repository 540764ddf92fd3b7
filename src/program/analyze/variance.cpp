// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "analyze/subjects.hpp"
#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/sampling.hpp"
#include "theory/variance.hpp"

namespace eqt::analyze {
using figures::Bars;
using figures::bars_drawing;
using figures::draw_if_asked;
using figures::print_rows;

namespace {

constexpr std::array<std::string_view, 8> kUsualForVariance = {
    "qsgd", "qsgd-v", "nuqsgd", "elastiquant", "e-elastiquant", "alq", "amq", "natural"};

/// Some of a gradient's segments.
struct Part {
  std::string name;
  std::vector<codec::Segment> segments;
};

std::span<const float> values_of(const codec::Segment& segment, std::span<const float> values) {
  return values.subspan(segment.begin, segment.count);
}

/// Exact variance and its bounds; empty for codecs whose variance has no formula here.
std::optional<theory::VarianceSums> exact_of(const Subject& subject, const Part& part,
                                             std::span<const float> values) {
  theory::VarianceSums sums;
  for (const codec::Segment& segment : part.segments) {
    const auto run = values_of(segment, values);
    if (!segment.compressed) {
      sums += theory::raw_variance(run);
    } else if (subject.scheme) {
      sums += theory::level_variance(*subject.scheme, run);
    } else if (subject.config.compressor.name == codec::kNatural) {
      theory::VarianceSums natural = theory::raw_variance(run);
      natural.exact = theory::natural_variance(run) * natural.squares;
      natural.worst_case = natural.theorem2 = natural.squares / 8;
      sums += natural;
    } else {
      return {};
    }
  }
  return sums;
}

/// The codec's own bound: for each segment by its length, weighted by squares.
std::optional<double> promise_of(const Subject& subject, const Part& part,
                                 std::span<const float> values) {
  double bound = 0, squares = 0;
  for (const codec::Segment& segment : part.segments) {
    const double here = theory::raw_variance(values_of(segment, values)).squares;
    squares += here;
    if (!segment.compressed) continue;
    const auto promised = subject.compressor->variance_bound(segment.count);
    if (!promised) return {};
    bound += here * *promised;
  }
  return squares > 0 ? bound / squares : 0;
}

std::size_t compressed_values(const Part& part) {
  std::size_t count = 0;
  for (const codec::Segment& segment : part.segments)
    if (segment.compressed) count += segment.count;
  return count;
}

Row row_of(const Subject& subject, const Part& part, const DumpedGradient& gradient,
           const ValuesQuestion& question) {
  // Segments of the part, of values that begin where the part does.
  Part here = part;
  const std::size_t begin = part.segments.front().begin;
  const std::size_t end = part.segments.back().begin + part.segments.back().count;
  const auto values = std::span(gradient.values).subspan(begin, end - begin);
  for (codec::Segment& segment : here.segments) segment.begin -= begin;
  const theory::Sample sample = theory::sample_codec(*subject.compressor, here.segments, values,
                                                     question.draws, question.seed);
  Row row = subject.row();
  if (!part.name.empty()) row["tensor"] = part.name;
  row["values"] = values.size();
  row["compressed_values"] = compressed_values(here);
  row["exact"] = nullptr;
  row["measured"] = sample.variance.mean;
  row["measured_standard_error"] = sample.variance.standard_error();
  row["one_draw_deviation"] = sample.variance.deviation;
  row["draws"] = sample.variance.draws;
  row["worst_case"] = nullptr;
  row["theorem2"] = nullptr;
  row["promised"] = nullptr;
  row["nonzero_share"] = nullptr;
  if (const auto promised = promise_of(subject, here, values)) row["promised"] = *promised;
  if (const auto exact = exact_of(subject, here, values)) {
    row["exact"] = exact->exact_ratio();
    row["worst_case"] = exact->worst_case_ratio();
    row["theorem2"] = exact->theorem2_ratio();
    row["nonzero_share"] = exact->nonzeros / static_cast<double>(exact->values);
  }
  return row;
}

/// All segments, or those of each tensor.
std::vector<Part> parts_of(const std::vector<codec::Segment>& segments,
                           const DumpedGradient& gradient, bool by_tensor) {
  if (!by_tensor) return {{"", segments}};
  std::vector<Part> parts;
  for (const TensorSlice& slice : gradient.layout) {
    Part part{slice.name, {}};
    for (const codec::Segment& segment : segments)
      if (segment.begin >= slice.offset && segment.begin < slice.offset + slice.count)
        part.segments.push_back(segment);
    if (!part.segments.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

figures::Drawing plot_of(const std::vector<Row>& rows, const std::string& about) {
  Bars bars{.title = fmt::format("Relative variance: {}", about),
            .unit = "E|Q(v) - v|^2 / |v|^2",
            .logarithmic = true,
            .series = {"exact", "measured", "worst case", "theorem 2"},
            .groups = {}};
  for (const Row& row : rows) {
    std::string name = row["compressor"];
    if (row.contains("tensor")) name += fmt::format(" {}", row["tensor"].get<std::string>());
    const auto value = [&](const char* key) {
      return row[key].is_number() ? row[key].get<double>() : std::nan("");
    };
    bars.groups.push_back(
        {name, {value("exact"), value("measured"), value("worst_case"), value("theorem2")}});
  }
  return bars_drawing(bars);
}

void check(const AnalyzeVarianceCommand& command, const DumpedGradient& gradient,
           const std::vector<Subject>& subjects) {
  if (!command.by_tensor) return;
  if (!gradient.has_layout)
    fail(Kind::usage,
         "analyze variance: expected a --gradient with a layout file for --by-tensor, found {}; "
         "leave --by-tensor out",
         command.values.file.empty() ? "drawn values" : "no layout");
  for (const Subject& subject : subjects)
    if (subject.config.compressor.granularity != codec::Granularity::layer)
      fail(Kind::usage,
           "analyze variance: expected compressor.granularity layer for --by-tensor, found model, "
           "under which tensors share buckets; leave one of them out");
}

}  // namespace

void run_analyze_variance(const AnalyzeVarianceCommand& command) {
  const DumpedGradient gradient = values_for(command.values);
  std::vector<Row> rows;
  const std::vector<Subject> subjects = analyzed_compressors(
      command.compressors, kUsualForVariance, gradient.values.size(), "analyze variance");
  check(command, gradient, subjects);
  for (const Subject& subject : subjects)
    for (const Part& part : parts_of(segments_for(subject, gradient), gradient, command.by_tensor))
      rows.push_back(row_of(subject, part, gradient, command.values));
  const std::string about = describe_values(command.values, gradient);
  if (!command.output.json)
    fmt::print(
        "E|Q(v) - v|^2 / |v|^2 of {}\n"
        "exact: for these values; measured: mean of {} messages and its standard error; worst: of "
        "all\n"
        "vectors whose buckets have these norms; theorem 2: (R-1)^2/(4R) + phi(A). alq and amq: "
        "with\n"
        "the tables that they start from.\n"
        "\n",
        about, command.values.draws);
  std::vector<RowColumn> columns = subject_columns();
  if (command.by_tensor) columns.insert(columns.begin() + 1, {"tensor", "tensor"});
  columns.insert(columns.end(), {{"compressed_values", "compressed"},
                                 {"exact", "exact", 5},
                                 {"measured", "measured", 5},
                                 {"measured_standard_error", "+-", 2},
                                 {"worst_case", "worst", 5},
                                 {"theorem2", "theorem 2", 5},
                                 {"promised", "codec's bound", 5}});
  print_rows(rows, columns, command.output.json);
  if (!command.output.json) print_notes(subjects);
  draw_if_asked(command.output.plot, [&] { return plot_of(rows, about); });
}

}  // namespace eqt::analyze
