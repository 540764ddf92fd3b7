// SPDX-License-Identifier: Apache-2.0
// `analyze rates`: the error that compressors make with gradients, by the bits that they take, and
// the least that any could make.
//
// Source   C. E. Shannon, IRE Convention Record 7 (1959): R(D) >= h(X) - log2(2 pi e D) / 2 for a
//          density with differential entropy h; a step in common over tensors, as in reverse
//          water-filling; O. Vasicek, J. R. Stat. Soc. B 38 (1976): h from spacings
// Differs from a bound for all codes: it takes the values of a tensor as independent draws of one
//          density. A code that knows where large values are can be below it

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <utility>

#include "analyze/analyze.hpp"
#include "analyze/subjects.hpp"
#include "codec/rate/rate_codec.hpp"
#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/sampling.hpp"

namespace eqt::analyze {
using figures::draw_if_asked;
using figures::print_rows;

namespace {

/// A compressor with one key of several values.
struct Family {
  std::string_view compressor;
  std::string_view key;  // of the section compressor
  std::vector<double> values;
  std::string_view also = {};  // another setting
  bool matched = false;        // also at the bits of each rate (matched_rows())
};

const std::vector<Family>& curves() {
  static const std::vector<double> kDensities = {0.001, 0.01, 0.1};
  static const std::vector<Family> kCurves = {
      {"e-elastiquant", "rate", {0.05, 0.1, 0.25, 0.5, 1, 2, 4}},
      {"e-elastiquant", "bits", {2, 3, 4, 5, 6, 8}},
      {"elastiquant", "bits", {2, 3, 4, 5, 6, 8}},
      {"elastiquant", "bits", {2, 3, 4, 5, 6, 8}, "compressor.rounding=nearest"},
      {"qsgd", "bits", {2, 3, 4, 6, 8}, "compressor.coding=auto"},
      {"alq", "bits", {2, 3, 4, 6}, "compressor.coding=huffman"},
      {"terngrad", "clip", {0, 2.5}},
      {"natural", "", {}},
      {"topk", "density", kDensities, "compressor.value_bits=32", true},
      {"topk", "density", kDensities, "compressor.value_bits=16", true},
      {"topk", "density", kDensities, "compressor.value_bits=4", true},
      {"topk", "density", kDensities, "compressor.value_bits=2", true},
      {"topk", "density", kDensities, "compressor.value_bits=1", true},
      {"randomk", "density", {0.01, 0.1}},
      {"ef-signsgd", "", {}},
      {"onebit", "", {}},
      {"powersgd", "rank", {1, 2, 4}},
      {"atomo", "rank", {2}},
      {"int8", "", {}},
      {"bf16", "", {}}};
  return kCurves;
}

/// One tensor's part of the bound.
struct Density {
  double values = 0;
  double least = 0;  // distortion at 0 bits by the bound: 2^(2h) / (2 pi e)
};

/// Vasicek's estimate of a density's entropy power over its values.
Density density_of(std::span<const float> values) {
  std::vector<float> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  const auto m = std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(n) / 2));
  double entropy = 0;  // [bits]
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t low = i < m ? 0 : i - m, high = std::min(n - 1, i + m);
    const double space = double{sorted[high]} - sorted[low];
    // Equal values have no density; they are free.
    if (space <= 0) return {static_cast<double>(n), 0};
    entropy += std::log2(static_cast<double>(n) / static_cast<double>(high - low) * space);
  }
  entropy /= static_cast<double>(n);
  return {static_cast<double>(n),
          std::exp2(2 * entropy) / (2 * std::numbers::pi * std::numbers::e)};
}

/// The values that are compressed, of one file.
struct Vector {
  std::vector<codec::Segment> segments;  // those that are compressed
  std::vector<float> values;             // 0 where they are not
  std::vector<Density> densities;        // by segment

  bool has(std::span<const codec::Segment> others) const {
    return std::ranges::equal(
        segments, others, [](const codec::Segment& a, const codec::Segment& b) {
          return a.begin == b.begin && a.count == b.count && a.first_index == b.first_index;
        });
  }
};

Vector vector_of(std::vector<codec::Segment> segments, const DumpedGradient& gradient) {
  Vector vector{std::move(segments), std::vector<float>(gradient.values.size(), 0.0f), {}};
  for (const codec::Segment& segment : vector.segments) {
    std::copy_n(gradient.values.begin() + static_cast<std::ptrdiff_t>(segment.begin), segment.count,
                vector.values.begin() + static_cast<std::ptrdiff_t>(segment.begin));
    vector.densities.push_back(
        density_of(std::span(vector.values).subspan(segment.begin, segment.count)));
  }
  return vector;
}

/// A file's gradient, and the vectors that compressors make of it; most make the same one.
class Gradient {
 public:
  explicit Gradient(DumpedGradient dumped) : dumped_(std::move(dumped)) {}

  std::size_t size() const { return dumped_.values.size(); }

  const Vector& vector_for(const Subject& subject) {
    std::vector<codec::Segment> segments = segments_for(subject, dumped_);
    std::erase_if(segments, [](const codec::Segment& segment) { return !segment.compressed; });
    for (const Vector& vector : vectors_)
      if (vector.has(segments)) return vector;
    return vectors_.emplace_back(vector_of(std::move(segments), dumped_));
  }

 private:
  DumpedGradient dumped_;
  std::deque<Vector> vectors_;
};

double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += double{v} * v;
  return sum;
}

/// Sums over files, in which each vector counts by itself.
struct Sums {
  double values = 0, bits = 0, error = 0, files = 0;
  void add(double count, double its_bits, double relative_error) {
    values += count;
    bits += its_bits;
    error += relative_error;
    files += 1;
  }
};

/// Returns the bits per value that the bound asks for this relative error of the file; none without
/// an error, which values that are float32 reach with bits that no density knows.
std::optional<double> bound_bits(const std::vector<Density>& tensors, double squares,
                                 double error) {
  if (!(error * squares > 0)) return {};
  double values = 0, largest = 0;
  for (const Density& t : tensors) {
    values += t.values;
    largest = std::max(largest, t.least);
  }
  if (largest <= 0) return 0;
  const auto at = [&](double level) {  // the distortion and bits of a step in common
    double distortion = 0, bits = 0;
    for (const Density& t : tensors) {
      distortion += t.values * std::min(level, t.least);
      if (level < t.least) bits += t.values * std::log2(t.least / level) / 2;
    }
    return std::pair(distortion, bits / values);
  };
  constexpr double kMostBits = 50;                                   // of a value
  double high = std::log2(largest) + 1, low = high - 2 * kMostBits;  // log2 of the level
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (at(std::exp2(middle)).first > error * squares ? high : low) = middle;
  }
  return at(std::exp2(low)).second;
}

/// The subject's compressor, with a rate as a run would divide it among these slices.
std::unique_ptr<codec::Compressor> compressor_for(const Subject& subject,
                                                  std::span<const codec::Segment> slices) {
  config::CompressorConfig compressor = subject.config.compressor;
  if (compressor.rate) {
    double values = 0;
    for (const codec::Segment& slice : slices) values += static_cast<double>(slice.count);
    const codec::RateDivision division = codec::divide_bits(*compressor.rate * values, slices);
    compressor.rate = division.rate;
    compressor.slice_bits = division.slice_bits;
  }
  return compressor.make();
}

Row row_of(const Subject& subject, const Family& curve, double value,
           std::vector<Gradient>& gradients, int draws) {
  Sums sums;
  std::optional<double> bound = 0;  // summed over files, if all have one
  for (Gradient& gradient : gradients) {
    const Vector& vector = gradient.vector_for(subject);
    if (vector.segments.empty())
      fail(Kind::usage,
           "analyze rates: expected a gradient with tensors of at least 1024 values, found only "
           "smaller ones, which are sent as float32; dump that of a larger network");
    const theory::Sample sample = theory::sample_codec(*compressor_for(subject, vector.segments),
                                                       vector.segments, vector.values, draws, 1);
    double count = 0;
    for (const codec::Segment& segment : vector.segments)
      count += static_cast<double>(segment.count);
    const double lengths = 32.0 * static_cast<double>(vector.segments.size());
    sums.add(count, sample.payload_bits.mean + lengths, sample.variance.mean);
    const auto its_bound =
        bound_bits(vector.densities, squares_of(vector.values), sample.variance.mean);
    bound = bound && its_bound ? std::optional(*bound + *its_bound) : std::nullopt;
  }
  Row row = {{"compressor", curve.compressor}, {"setting", nullptr}};
  if (!curve.key.empty()) row["setting"] = fmt::format("{} {:.4g}", curve.key, value);
  if (!curve.also.empty())
    row["setting"] = fmt::format("{}, {}", row["setting"].get<std::string>(),
                                 curve.also.substr(curve.also.find('.') + 1));
  row["rate"] = curve.key == "rate";
  row["bits"] = sums.bits / sums.values;
  row["error"] = sums.error / sums.files;
  row["bound_bits"] = nullptr;
  row["above_bound"] = nullptr;
  if (bound) {
    row["bound_bits"] = *bound / sums.files;
    row["above_bound"] = sums.bits / sums.values - *bound / sums.files;
  }
  row["best_other"] = nullptr;
  row["over_best_other"] = nullptr;
  return row;
}

bool is_rate(const Row& row) { return row["rate"].get<bool>(); }
double bits_of(const Row& row) { return row["bits"].get<double>(); }

/// A curve's rows for densities that take as many bits as each rate, or up to a 200th fewer, so
/// that a coarse grid of densities is no handicap. The bits of a sparse code are nearly a power of
/// its density.
std::vector<Row> matched_rows(const std::vector<Row>& rows, const std::function<Row(double)>& at) {
  constexpr int kMostTrials = 6;
  constexpr double kLeastMatch = 0.995;
  std::vector<Row> matched;
  for (const Row& row : rows) {
    if (!is_rate(row)) continue;
    const double bits = bits_of(row);
    double density = std::min(0.5, bits / 10);
    std::optional<Row> best;
    for (int trial = 0; trial < kMostTrials; ++trial) {
      const Row one = at(density);
      const double found = bits_of(one);
      if (found <= bits && (!best || found > bits_of(*best))) best = one;
      if (found <= bits && found >= kLeastMatch * bits) break;
      density = std::min(1.0, density * bits / found * (1 + kLeastMatch) / 2);
    }
    if (best) matched.push_back(*best);
  }
  return matched;
}

/// Sets, for each rate, the compressor without one that has the least error at no more bits.
void compare(std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (!is_rate(row)) continue;
    const Row* best = nullptr;
    for (const Row& other : rows) {
      if (is_rate(other) || bits_of(other) > bits_of(row)) continue;
      if (best == nullptr || other["error"].get<double>() < (*best)["error"].get<double>())
        best = &other;
    }
    if (best == nullptr) continue;
    row["best_other"] = fmt::format(
        "{} {}", (*best)["compressor"].get<std::string>(),
        (*best)["setting"].is_string() ? (*best)["setting"].get<std::string>() : std::string());
    if (const double its = (*best)["error"].get<double>(); its > 0)
      row["over_best_other"] = row["error"].get<double>() / its;
  }
}

figures::Drawing plot_of(const std::vector<Row>& rows) {
  std::vector<figures::Curve> drawn;
  figures::Curve bound{.title = "Shannon's bound", .points = {}};
  for (const Row& row : rows) {
    std::string title = row["compressor"];
    if (is_rate(row)) title += " by rate";
    const auto at = std::ranges::find(drawn, title, &figures::Curve::title);
    figures::Curve& curve = at != drawn.end() ? *at : drawn.emplace_back(figures::Curve{title, {}});
    curve.points.emplace_back(row["bits"], row["error"]);
    if (is_rate(row) && row["bound_bits"].is_number() && row["bound_bits"].get<double>() > 0)
      bound.points.emplace_back(row["bound_bits"], row["error"]);
  }
  for (figures::Curve& curve : drawn) std::ranges::sort(curve.points);
  drawn.push_back(bound);
  return figures::curves_drawing({.title = "Error by bits",
                                  .x = "bits per compressed value",
                                  .y = "|Q(v) - v|^2 / |v|^2",
                                  .log_x = true,
                                  .log_y = true},
                                 drawn);
}

}  // namespace

void run_analyze_rates(const AnalyzeRatesCommand& command) {
  std::vector<Gradient> gradients;
  for (const std::string& file : command.files) gradients.emplace_back(read_dumped_gradient(file));
  const std::size_t most = std::ranges::max_element(gradients, {}, &Gradient::size)->size();
  const auto row_at = [&](const Family& curve, double value) {
    CompressorQuestion question{.names = {std::string(curve.compressor)}, .sets = {}};
    if (!curve.key.empty())
      question.sets.push_back(fmt::format("compressor.{}={}", curve.key, value));
    if (!curve.also.empty()) question.sets.emplace_back(curve.also);
    const std::vector<Subject> subjects = analyzed_compressors(question, {}, most, "analyze rates");
    return row_of(subjects.front(), curve, value, gradients, command.draws);
  };
  std::vector<Row> rows;
  for (const Family& curve : curves()) {
    const std::vector<double> values = curve.key.empty() ? std::vector<double>{0} : curve.values;
    for (const double value : values) rows.push_back(row_at(curve, value));
    if (curve.matched)
      std::ranges::copy(matched_rows(rows, [&](double value) { return row_at(curve, value); }),
                        std::back_inserter(rows));
  }
  compare(rows);
  if (!command.output.json)
    fmt::print(
        "Error |Q(v) - v|^2 / |v|^2 by bits per compressed value, lengths of payloads included: "
        "mean "
        "of {}\n"
        "gradients, {} draws of each. bound: bits that a code of each tensor's density needs for "
        "the "
        "same\nerror (Shannon); best other: the least error without a rate at no more bits.\n\n",
        gradients.size(), command.draws);
  print_rows(rows,
             {{"compressor", "compressor"},
              {"setting", "setting"},
              {"bits", "bits"},
              {"error", "error"},
              {"bound_bits", "bound", 3},
              {"above_bound", "above", 3},
              {"best_other", "best other"},
              {"over_best_other", "error/its", 3}},
             command.output.json);
  draw_if_asked(command.output.plot, [&] { return plot_of(rows); });
}

}  // namespace eqt::analyze
