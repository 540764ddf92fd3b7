#include "app/analyze/subjects.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/build_run.hpp"
#include "core/error.hpp"

namespace eqt::app {
namespace {

codec::Norm norm_of(const RunConfig::Compressor& config) {
  if (config.name == "qsgd-v" || config.name == "terngrad") return codec::Norm::max;
  const bool chosen = config.name == "elastiquant" || config.name == "e-elastiquant";
  return chosen && config.norm == "max" ? codec::Norm::max : codec::Norm::l2;
}

/// Ternary values without clipping are one level under the maximum norm of the whole run.
bool is_ternary(const RunConfig::Compressor& config) {
  return config.name == "terngrad" && config.clip == 0;
}

std::optional<theory::LevelScheme> scheme_of(const Subject& subject, std::size_t values) {
  const RunConfig::Compressor& config = subject.config.compressor;
  if (is_ternary(config))
    return theory::LevelScheme{.levels = {0, 1}, .bucket_size = values, .norm = norm_of(config)};
  const auto levels = theory::levels_of(*subject.compressor);
  if (!levels) return {};
  return theory::LevelScheme{
      .levels = *levels, .bucket_size = config.bucket_size, .norm = norm_of(config)};
}

Subject make_subject(const std::string& name, const CompressorQuestion& question,
                     std::size_t values, const char* about) {
  const nlohmann::json document = {{"compressor", {{"name", name}}}};
  Subject subject;
  subject.config = parse_config(document.dump(), about, question.sets);
  subject.compressor = make_compressor(subject.config.compressor);
  subject.scheme = scheme_of(subject, values);
  return subject;
}

void check_sets(const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (!set.starts_with("compressor."))
      fail(Kind::usage,
           "--set \"{}\": expected a key of the section compressor, as in --set "
           "compressor.bits=8",
           set);
    if (set.starts_with("compressor.name="))
      fail(Kind::usage, "--set \"{}\": expected --compressor for the name", set);
  }
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
  check_sets(question.sets);
  std::vector<Subject> subjects;
  for (const std::string& name : question.names)
    subjects.push_back(make_subject(name, question, values, about));
  if (!question.names.empty()) return subjects;
  std::string refusal;
  for (const std::string_view name : usual) {
    try {
      subjects.push_back(make_subject(std::string(name), question, values, about));
    } catch (const Error& error) {
      if (error.kind() != Kind::usage) throw;
      refusal = error.what();
    }
  }
  if (subjects.empty())
    fail(Kind::usage, "no compressor takes these settings; the last said: {}", refusal);
  return subjects;
}

}  // namespace eqt::app
