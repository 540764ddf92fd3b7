// SPDX-License-Identifier: Apache-2.0
#include "analyze/subjects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codec/levels/level_codec.hpp"
#include "config/compressor_settings.hpp"
#include "core/error.hpp"
#include "setup/build_messages.hpp"
#include "theory/sampling.hpp"

namespace eqt::analyze {

namespace {

/// Ternary values without clipping are one level under the maximum norm of the whole run.
bool is_ternary(const codec::Compressor& compressor) {
  const codec::Properties properties = compressor.properties();
  return properties.shared_scale && properties.unbiased;
}

std::optional<theory::LevelScheme> scheme_of(const Subject& subject, std::size_t values) {
  const codec::Compressor& compressor = *subject.compressor;
  if (is_ternary(compressor))
    return theory::LevelScheme{.levels = {0, 1}, .bucket_size = values, .norm = codec::Norm::max};
  const auto levels = theory::levels_of(compressor);
  if (!levels) return {};
  return theory::LevelScheme{.levels = *levels,
                             .bucket_size = subject.config.compressor.bucket_size,
                             .norm = compressor.level_rounding()->norm()};
}

Subject make_subject(const std::string& name, const CompressorQuestion& question,
                     std::size_t values, const char* about) {
  Subject subject;
  subject.config = config::compressor_config(name, question.sets, about);
  subject.compressor = subject.config.compressor.make();
  subject.scheme = scheme_of(subject, values);
  return subject;
}

}  // namespace

std::string Subject::label() const {
  const std::string_view name = config.compressor.name->name;
  if (!scheme || is_ternary(*compressor)) return std::string(name);
  return fmt::format("{}, {} bits, buckets of {}", name, scheme->fixed_bits(), scheme->bucket_size);
}

Row Subject::row() const {
  Row row = {{"compressor", config.compressor.name->name},
             {"bits", nullptr},
             {"bucket_size", nullptr},
             {"norm", nullptr},
             {"coding", nullptr}};
  if (!scheme) return row;
  row["bits"] = scheme->fixed_bits();
  row["bucket_size"] = scheme->bucket_size;
  row["norm"] = name_of(scheme->norm);
  row["coding"] = name_of(config.compressor.coding);
  return row;
}

void require_levels(const Subject& subject, const char* about) {
  if (subject.scheme) return;
  const config::CompressorConfig& compressor = subject.config.compressor;
  if (compressor.adapts_grades())
    fail(Kind::usage,
         "{}: expected a compressor with one table of levels, found {}, with which a run "
         "chooses the table of each tensor; try {}",
         about, config::setting_of_grades(compressor),
         compressor.open.bits         ? "--set compressor.bits=4"
         : compressor.open.elasticity ? "--set compressor.elasticity=auto"
                                      : "--compressor e-elastiquant");
  fail(
      Kind::usage,
      "{}: expected a compressor that rounds to levels, found {}; try elastiquant, or bench codecs "
      "for what others send",
      about, compressor.name->name);
}

void print_notes(std::span<const Subject> subjects) {
  for (const Subject& subject : subjects)
    if (const std::string note = config::note_on_grades(subject.config.compressor); !note.empty())
      fmt::print("{}\n", note);
}

std::vector<RowColumn> subject_columns() {
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

DumpedGradient values_for(const ValuesQuestion& question) {
  if (!question.file.empty()) return read_dumped_gradient(question.file);
  DumpedGradient gradient;
  gradient.values = theory::draw(question.source, question.values, question.seed);
  gradient.layout = {{.name = question.source,
                      .shape = {static_cast<std::int64_t>(question.values)},
                      .offset = 0,
                      .count = question.values}};
  return gradient;
}

std::vector<codec::Segment> segments_for(const Subject& subject, const DumpedGradient& gradient) {
  if (!gradient.has_layout) return theory::one_segment(gradient.values.size());
  std::vector<codec::Segment> segments;
  for (const pipeline::FusionBucket& bucket :
       setup::make_plan(subject.config, gradient.layout, *subject.compressor))
    segments.insert(segments.end(), bucket.segments.begin(), bucket.segments.end());
  std::ranges::sort(segments, {}, &codec::Segment::begin);
  return segments;
}

std::string describe_values(const ValuesQuestion& question, const DumpedGradient& gradient) {
  if (question.file.empty())
    return fmt::format("{} values of source {}, seed {}", gradient.values.size(), question.source,
                       question.seed);
  std::string text = fmt::format("{}: {} values", question.file, gradient.values.size());
  if (gradient.has_layout) text += fmt::format(" in {} tensors", gradient.layout.size());
  if (gradient.step) text += fmt::format(", step {}", *gradient.step);
  if (gradient.rank) text += fmt::format(", rank {}", *gradient.rank);
  return text;
}

}  // namespace eqt::analyze
