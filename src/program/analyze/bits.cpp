// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "analyze/subjects.hpp"
#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/code_length.hpp"
#include "theory/sampling.hpp"

namespace eqt::analyze {
using figures::Bars;
using figures::bars_drawing;
using figures::draw_if_asked;
using figures::print_rows;

namespace {

constexpr std::array<std::string_view, 5> kUsualForBits = {"qsgd", "qsgd-v", "nuqsgd",
                                                           "elastiquant", "e-elastiquant"};

std::span<const Named<codec::Coding>> codings() { return codec::level_codings(); }

/// Makes a compressor with the same table and another coding.
std::unique_ptr<codec::Compressor> recoded(const theory::LevelScheme& scheme,
                                           codec::Coding coding) {
  return codec::make_compressor(
      codec::kElastiQuant,
      {.bits = scheme.fixed_bits(),
       .bucket_size = scheme.bucket_size,
       .norm = scheme.norm,
       .levels = codec::LevelFamily::general,
       .elasticity = {},
       .coding = coding,
       .table = std::vector<double>(scheme.levels.begin() + 1, scheme.levels.end())});
}

/// Holds the sums over compressed runs of what is asked of each; bits.
struct Lengths {
  theory::ExpectedBits expected;
  std::vector<std::optional<double>> bound;  // by coder; none for rans
  double published_qsgd = 0, published_dense = 0, published_nuqsgd = 0;
  std::size_t values = 0;
};

Lengths lengths_of(const theory::LevelScheme& scheme, std::span<const codec::Segment> segments,
                   std::span<const float> values) {
  Lengths lengths;
  for (const auto& coder : codings())
    lengths.bound.push_back(coder.value == codec::Coding::rans ? std::nullopt : std::optional(0.0));
  for (const codec::Segment& segment : segments) {
    if (!segment.compressed) continue;
    const auto part = values.subspan(segment.begin, segment.count);
    lengths.values += part.size();
    lengths.expected += theory::expected_bits_of_segment(scheme, part);
    theory::each_bucket(part, scheme.bucket_size, [&](std::span<const float> bucket) {
      const auto d = static_cast<double>(bucket.size());
      for (std::size_t c = 0; c < codings().size(); ++c)
        if (lengths.bound[c])
          *lengths.bound[c] += *theory::bucket_bound(scheme, bucket.size(), codings()[c].value);
      lengths.published_qsgd += theory::PublishedBits::qsgd_sparse(scheme.count(), d);
      lengths.published_dense += theory::PublishedBits::qsgd_dense(d);
      lengths.published_nuqsgd += theory::PublishedBits::nuqsgd(scheme.count() - 1, d);
    });
  }
  return lengths;
}

/// The expectation that belongs to a coder; none where there is no formula.
std::optional<double> expected_of(codec::Coding coding, const theory::ExpectedBits& bits,
                                  std::size_t symbols) {
  switch (coding) {
    case codec::Coding::fixed:
      return bits.fixed;
    case codec::Coding::elias:
      return std::min(bits.sparse, bits.dense);
    case codec::Coding::huffman:
      return bits.huffman + 4.0 * static_cast<double>(symbols) * bits.buckets;
    default:
      return {};
  }
}

/// Each coder's expectation, bound and measured mean.
Row coders_of(const theory::LevelScheme& scheme, std::span<const codec::Segment> segments,
              std::span<const float> values, const Lengths& lengths,
              const ValuesQuestion& question) {
  const auto count = static_cast<double>(lengths.values);
  Row coders = Row::array();
  for (std::size_t c = 0; c < codings().size(); ++c) {
    const theory::Sampled bits =
        theory::sample_codec(*recoded(scheme, codings()[c].value), segments, values, question.draws,
                             question.seed)
            .payload_bits;
    Row coder = {{"coding", codings()[c].name},
                 {"expected", nullptr},
                 {"bound", nullptr},
                 {"measured", bits.mean / count},
                 {"measured_standard_error", bits.standard_error() / count}};
    if (const auto expected =
            expected_of(codings()[c].value, lengths.expected, scheme.levels.size()))
      coder["expected"] = *expected / count;
    if (lengths.bound[c]) coder["bound"] = *lengths.bound[c] / count;
    coders.push_back(coder);
  }
  return coders;
}

Row row_of(const Subject& subject, const DumpedGradient& gradient, const ValuesQuestion& question) {
  const theory::LevelScheme& scheme = *subject.scheme;
  const std::vector<codec::Segment> segments = segments_for(subject, gradient);
  const Lengths lengths = lengths_of(scheme, segments, gradient.values);
  if (lengths.values == 0)
    fail(Kind::usage,
         "analyze bits: expected a gradient with tensors that {} compresses, found only small ones "
         "that are sent as float32; lower --set compressor.skip_below",
         subject.config.compressor.name->name);
  const auto per_value = [&](double bits) { return bits / static_cast<double>(lengths.values); };
  const theory::ExpectedBits& bits = lengths.expected;
  Row row = subject.row();
  row["values"] = lengths.values;
  row["buckets"] = bits.buckets;
  row["nonzero_share"] = per_value(bits.nonzeros);
  row["expected"] = {{"fixed", per_value(bits.fixed)},     {"sparse", per_value(bits.sparse)},
                     {"dense", per_value(bits.dense)},     {"huffman", per_value(bits.huffman)},
                     {"entropy", per_value(bits.entropy)}, {"theorem3", per_value(bits.theorem3)},
                     {"header", per_value(bits.header)},   {"gaps", per_value(bits.gaps)},
                     {"indices", per_value(bits.indices)}};
  row["published_estimates"] = {{"qsgd_sparse", per_value(lengths.published_qsgd)},
                                {"qsgd_dense", per_value(lengths.published_dense)},
                                {"nuqsgd", per_value(lengths.published_nuqsgd)}};
  row["coders"] = coders_of(scheme, segments, gradient.values, lengths, question);
  return row;
}

void print_subject(const Subject& subject, const Row& row) {
  const Row& expected = row["expected"];
  fmt::print("\n{}; {:.3g} of the indices are not 0\n", subject.label(),
             row["nonzero_share"].get<double>());
  const auto coders = row["coders"].get<std::vector<Row>>();
  print_rows(coders,
             {{"coding", "coding", 4},
              {"expected", "expected", 5},
              {"bound", "bound", 5},
              {"measured", "measured", 5},
              {"measured_standard_error", "+-", 2}},
             false);
  fmt::print(
      "containers, expected: sparse {:.4g}, dense {:.4g}, Huffman without its table {:.4g};\n"
      "entropy and signs {:.4g}; theorem 3 {:.4g}\n",
      expected["sparse"].get<double>(), expected["dense"].get<double>(),
      expected["huffman"].get<double>(), expected["entropy"].get<double>(),
      expected["theorem3"].get<double>());
  const Row& published = row["published_estimates"];
  const Entry<codec::CompressorRow> compressor = subject.config.compressor.name;
  if (compressor == codec::kQsgd)
    fmt::print("published estimates, o(1) dropped: sparse {:.4g}; dense regime {:.4g}\n",
               published["qsgd_sparse"].get<double>(), published["qsgd_dense"].get<double>());
  if (compressor == codec::kNuqsgd && published["nuqsgd"].is_number())
    fmt::print("published estimate, o(1) dropped: {:.4g}\n", published["nuqsgd"].get<double>());
}

figures::Drawing plot_of(const std::vector<Row>& rows, const std::string& about) {
  Bars bars{.title = fmt::format("Bits per value: {}", about),
            .unit = "bits",
            .logarithmic = false,
            .series = {"fixed", "Elias", "Huffman", "rANS", "auto", "entropy and signs"},
            .groups = {}};
  for (const Row& row : rows) {
    std::vector<double> values;
    for (const Row& coder : row["coders"]) values.push_back(coder["measured"]);
    values.push_back(row["expected"]["entropy"]);
    bars.groups.push_back({row["compressor"], values});
  }
  return bars_drawing(bars);
}

}  // namespace

void run_analyze_bits(const AnalyzeBitsCommand& command) {
  const DumpedGradient gradient = values_for(command.values);
  const std::vector<Subject> subjects = analyzed_compressors(
      command.compressors, kUsualForBits, gradient.values.size(), "analyze bits");
  for (const Subject& subject : subjects) require_levels(subject, "analyze bits");
  std::vector<Row> rows;
  const std::string about = describe_values(command.values, gradient);
  if (!command.output.json)
    fmt::print(
        "Bits per compressed value of {}\n"
        "expected: exactly, over all roundings, without the mode and the padding of a bucket; "
        "bound: for\n"
        "every vector, with them; measured: mean of {} messages and its standard error.\n",
        about, command.values.draws);
  for (const Subject& subject : subjects) {
    rows.push_back(row_of(subject, gradient, command.values));
    if (!command.output.json) print_subject(subject, rows.back());
  }
  if (command.output.json) print_rows(rows, {}, true);
  draw_if_asked(command.output.plot, [&] { return plot_of(rows, about); });
}

}  // namespace eqt::analyze
