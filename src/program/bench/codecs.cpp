// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/measure_codec.hpp"
#include "codec/simd.hpp"
#include "config/compressor_settings.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"

namespace eqt::bench {
namespace {

/// One compressor with its settings, ready to run.
struct BenchCase {
  config::RunConfig::Compressor config;
  std::unique_ptr<codec::Compressor> compressor;
  bool has_bits = false, has_buckets = false;  // whether these keys mean something to it
};

config::RunConfig::Compressor configure(const std::string& name,
                                        const std::vector<std::string>& sets) {
  return config::compressor_config(name, sets, "bench codecs").compressor;
}

BenchCase make_bench_case(const std::string& name, const std::vector<std::string>& sets) {
  BenchCase bench_case{.config = configure(name, sets), .compressor = nullptr};
  const codec::CompressorRow& row = *bench_case.config.name;
  bench_case.compressor = bench_case.config.make();
  bench_case.has_bits = row.reads.has(codec::Option::bits);
  bench_case.has_buckets = row.reads.has(codec::Option::bucket_size);
  return bench_case;
}

/// If every compressor is asked for, those that refuse a setting are left out.
std::vector<BenchCase> bench_cases(const BenchCommand& command) {
  config::check_compressor_sets(command.sets);
  std::vector<std::string> all;
  for (const config::Choice& choice : config::config_choices("compressor.name"))
    all.push_back(choice.name);
  return config::asked_or_usual(command.compressors, all, [&](const std::string& name) {
    return make_bench_case(name, command.sets);
  });
}

template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

void print_json(const BenchCase& bench_case, const CodecFigures& figures, std::size_t values,
                double read) {
  const config::RunConfig::Compressor& config = bench_case.config;
  nlohmann::ordered_json line = {{"compressor", config.name->name},
                                 {"coding", name_of(config.coding)}};
  line["bits"] = bench_case.has_bits ? nlohmann::ordered_json(config.bits) : nullptr;
  line["bucket_size"] =
      bench_case.has_buckets ? nlohmann::ordered_json(config.bucket_size) : nullptr;
  line["values"] = values;
  line["encode_gb_s"] = figures.encode_gb_s;
  line["decode_add_gb_s"] = figures.decode_add_gb_s;
  line["bits_per_value"] = figures.bits_per_value;
  line["variance"] = figures.variance;
  line["variance_bound"] = or_null(figures.variance_bound);
  line["read_gb_s"] = read;
  line["sum8_gb_s"] = figures.sum8_gb_s;
  line["feedback_gb_s"] = or_null(figures.feedback_gb_s);
  line["break_even_gbit_s"] = or_null(figures.break_even_gbit);
  line["rows"] = figures.rows;
  line["unbiased"] = bench_case.compressor->properties().unbiased;
  line["simd"] = codec::simd_target();
  if (const std::string note = config::note_on_grades(config); !note.empty()) line["note"] = note;
  fmt::print("{}\n", line.dump());
}

void print_head(std::size_t values, double read) {
  fmt::print(
      "{} normal values, deviation {:g}; one thread, {}; reading them: {:.1f} GB/s\n"
      "Columns: GB of float32 per second for encode, decode-and-add, the sum of 8 messages and\n"
      "encode with error feedback; bits per value; |error|^2 / |values|^2 and its bound; the link\n"
      "[Gbit/s] below which encode + send + decode take less time than sending float32.\n\n"
      "{:<13} {:>8} {:>4} {:>8}  {:>6} {:>6} {:>6} {:>6} {:>6} {:>9} {:>9} {:>7}\n",
      values, kBenchDeviation, codec::simd_target(), read, "compressor", "coding", "bits", "bucket",
      "encode", "decode", "sum8", "fb", "bits/v", "variance", "bound", "link");
}

void print_row(const BenchCase& bench_case, const CodecFigures& figures) {
  const config::RunConfig::Compressor& config = bench_case.config;
  const bool has_coding = bench_case.has_bits || config.coding != codec::Coding::fixed;
  const auto number = [](bool known, auto value) {
    return known ? fmt::format("{}", value) : std::string("-");
  };
  const auto rounded = [](const std::optional<double>& value, int precision) {
    return value ? fmt::format("{:.{}f}", *value, precision) : std::string("-");
  };
  const auto small = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  fmt::print(
      "{:<13} {:>8} {:>4} {:>8}  {:>6.2f} {:>6.2f} {:>6.2f} {:>6} {:>6.3f} {:>9} {:>9} {:>7}\n",
      config.name->name, has_coding ? name_of(config.coding) : "-",
      number(bench_case.has_bits, config.bits), number(bench_case.has_buckets, config.bucket_size),
      figures.encode_gb_s, figures.decode_add_gb_s, figures.sum8_gb_s,
      rounded(figures.feedback_gb_s, 2), figures.bits_per_value, small(figures.variance),
      small(figures.variance_bound), rounded(figures.break_even_gbit, 2));
}

}  // namespace

void run_bench_codecs(const BenchCommand& command) {
  const std::vector<BenchCase> all = bench_cases(command);
  const auto buffer = bench_gradient(command.values);
  const auto values = buffer.span();
  const double read = read_gb_s(values);
  if (!command.json) print_head(values.size(), read);
  for (const BenchCase& bench_case : all) {
    verify_codec(std::string(bench_case.config.name->name), *bench_case.compressor, values);
    const CodecFigures figures = measure_codec(*bench_case.compressor, values);
    if (command.json)
      print_json(bench_case, figures, values.size(), read);
    else
      print_row(bench_case, figures);
    std::fflush(stdout);
  }
  if (command.json) return;
  for (const BenchCase& bench_case : all)
    if (const std::string note = config::note_on_grades(bench_case.config); !note.empty())
      fmt::print("{}\n", note);
}

}  // namespace eqt::bench
