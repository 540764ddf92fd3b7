// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/variance.hpp"

namespace eqt::analyze {
using figures::Curve;
using figures::curves_drawing;
using figures::draw_if_asked;
using figures::print_rows;
using figures::Row;
using figures::stacked;

namespace {

constexpr std::array kWorstCaseBits = {2, 3, 4, 5, 6, 8};
constexpr std::array<std::size_t, 2> kWorstCaseBuckets = {512, 8192};
// The curves over bucket sizes have these bits, and buckets of these powers of 2.
constexpr int kPlottedBits = 4, kFirstPower = 7, kLastPower = 16;

Row row_of(const theory::WorstCaseRow& worst) {
  return {{"bits", worst.bits},
          {"levels", worst.levels},
          {"bucket_size", worst.bucket_size},
          {"theta_l2", worst.theta_l2},
          {"elastiquant_l2", worst.elastiquant_l2},
          {"elastiquant_l2_dual", worst.elastiquant_l2_dual},
          {"theta_max", worst.theta_max},
          {"elastiquant_max", worst.elastiquant_max},
          {"elastiquant_max_fixed_point", worst.elastiquant_max_fixed_point},
          {"qsgd", worst.qsgd},
          {"qsgd_dual", worst.qsgd_dual},
          {"qsgd_v", worst.qsgd_v},
          {"qsgd_v_fixed_point", worst.qsgd_v_fixed_point},
          {"nuqsgd", worst.nuqsgd},
          {"nuqsgd_max", worst.nuqsgd_max},
          {"nuqsgd_theorem", worst.nuqsgd_theorem},
          {"best_p", worst.best_p},
          {"exponential", worst.exponential}};
}

/// A curve per scheme through `rows`, over `x` of a row.
template <typename X>
std::vector<Curve> curves_of(const std::vector<theory::WorstCaseRow>& rows, const X& x) {
  using theory::WorstCaseRow;
  const std::pair<const char*, double WorstCaseRow::*> schemes[] = {
      {"QSGD", &WorstCaseRow::qsgd},
      {"QSGD-V (max norm)", &WorstCaseRow::qsgd_v},
      {"NUQSGD", &WorstCaseRow::nuqsgd},
      {"exponential, best p", &WorstCaseRow::exponential},
      {"ElastiQuant, L2", &WorstCaseRow::elastiquant_l2},
      {"ElastiQuant, max norm", &WorstCaseRow::elastiquant_max}};
  std::vector<Curve> curves;
  for (const auto& [name, member] : schemes) {
    Curve curve{.title = name, .points = {}};
    for (const WorstCaseRow& row : rows) curve.points.emplace_back(x(row), row.*member);
    curves.push_back(std::move(curve));
  }
  return curves;
}

figures::Drawing plot_of(std::size_t bucket) {
  std::vector<theory::WorstCaseRow> by_bits, by_bucket;
  for (int bits = 2; bits <= 8; ++bits) by_bits.push_back(theory::worst_case_row(bits, bucket));
  for (int power = kFirstPower; power <= kLastPower; ++power)
    by_bucket.push_back(theory::worst_case_row(kPlottedBits, std::size_t{1} << power));
  const std::string y = "worst-case relative variance";
  return stacked(curves_drawing({.title = fmt::format("Buckets of {} values", bucket),
                                 .x = "bits per value, sign included",
                                 .y = y,
                                 .log_x = false,
                                 .log_y = true},
                                curves_of(by_bits, [](const auto& row) { return row.bits; })),
                 curves_drawing({.title = fmt::format("{} bits per value", kPlottedBits),
                                 .x = "values in a bucket",
                                 .y = y,
                                 .log_x = true,
                                 .log_y = true},
                                curves_of(by_bucket, [](const auto& row) {
                                  return static_cast<double>(row.bucket_size);
                                })));
}

}  // namespace

void run_analyze_worst_case(const AnalyzeWorstCaseCommand& command) {
  std::vector<int> bits = command.bits;
  if (bits.empty()) bits.assign(kWorstCaseBits.begin(), kWorstCaseBits.end());
  std::vector<std::size_t> buckets = command.buckets;
  if (buckets.empty()) buckets.assign(kWorstCaseBuckets.begin(), kWorstCaseBuckets.end());
  std::vector<Row> rows;
  for (const int b : bits)
    for (const std::size_t d : buckets) rows.push_back(row_of(theory::worst_case_row(b, d)));
  if (!command.output.json)
    fmt::print(
        "Least bounds of E|Q(v) - v|^2 / |v|^2 that hold for every vector, L2 norm but for QSGD-V "
        "and where\n"
        "it says max. ElastiQuant: sinh levels of theta*; exponential: levels of ratio p*; NUQSGD: "
        "p = 1/2.\n"
        "\n");
  print_rows(rows,
             {{"bits", "bits"},
              {"bucket_size", "bucket"},
              {"qsgd", "QSGD"},
              {"qsgd_v", "QSGD-V"},
              {"nuqsgd", "NUQSGD"},
              {"nuqsgd_theorem", "(theorem)"},
              {"best_p", "p*", 3},
              {"exponential", "exponential"},
              {"theta_l2", "theta*", 5},
              {"elastiquant_l2", "ElastiQuant"},
              {"theta_max", "theta* max", 5},
              {"elastiquant_max", "ElastiQuant max"}},
             command.output.json);
  draw_if_asked(command.output.plot, [&] { return plot_of(buckets.back()); });
}

}  // namespace eqt::analyze
