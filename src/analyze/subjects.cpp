#include "analyze/subjects.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/compressor_settings.hpp"
#include "config/make_compressor.hpp"
#include "core/error.hpp"

namespace eqt::analyze {
namespace {

codec::Norm norm_of(const config::RunConfig::Compressor& config) {
  if (config.name == "qsgd-v" || config.name == "terngrad") return codec::Norm::max;
  const bool chosen = config.name == "elastiquant" || config.name == "e-elastiquant";
  return chosen && config.norm == "max" ? codec::Norm::max : codec::Norm::l2;
}

/// Ternary values without clipping are one level under the maximum norm of the whole run.
bool is_ternary(const config::RunConfig::Compressor& config) {
  return config.name == "terngrad" && config.clip == 0;
}

std::optional<theory::LevelScheme> scheme_of(const Subject& subject, std::size_t values) {
  const config::RunConfig::Compressor& config = subject.config.compressor;
  if (is_ternary(config))
    return theory::LevelScheme{.levels = {0, 1}, .bucket_size = values, .norm = norm_of(config)};
  const auto levels = theory::levels_of(*subject.compressor);
  if (!levels) return {};
  return theory::LevelScheme{
      .levels = *levels, .bucket_size = config.bucket_size, .norm = norm_of(config)};
}

Subject make_subject(const std::string& name, const CompressorQuestion& question,
                     std::size_t values, const char* about) {
  Subject subject;
  subject.config = config::compressor_config(name, question.sets, about);
  subject.compressor = config::make_compressor(subject.config.compressor);
  subject.scheme = scheme_of(subject, values);
  return subject;
}

}  // namespace

std::string Subject::label() const {
  if (!scheme || is_ternary(config.compressor)) return config.compressor.name;
  return fmt::format("{}, {} bits, buckets of {}", config.compressor.name, scheme->fixed_bits(),
                     scheme->bucket_size);
}

Row Subject::row() const {
  Row row = {{"compressor", config.compressor.name},
             {"bits", nullptr},
             {"bucket_size", nullptr},
             {"norm", nullptr},
             {"coding", nullptr}};
  if (!scheme) return row;
  row["bits"] = scheme->fixed_bits();
  row["bucket_size"] = scheme->bucket_size;
  row["norm"] = scheme->norm == codec::Norm::max ? "max" : "l2";
  row["coding"] = config.compressor.coding;
  return row;
}

std::vector<Column> subject_columns() {
  return {
      {"compressor", "compressor"}, {"bits", "bits"}, {"bucket_size", "bucket"}, {"norm", "norm"}};
}

std::vector<Subject> analyzed_compressors(const CompressorQuestion& question,
                                          std::span<const std::string_view> usual,
                                          std::size_t values, const char* about) {
  config::check_compressor_sets(question.sets);
  return config::asked_or_usual(
      question.names, {usual.begin(), usual.end()},
      [&](const std::string& name) { return make_subject(name, question, values, about); });
}

}  // namespace eqt::analyze
