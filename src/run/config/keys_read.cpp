// SPDX-License-Identifier: Apache-2.0
#include "config/keys_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "codec/compressor.hpp"
#include "config/fields.hpp"

namespace eqt::config {

void require_default(const RunConfig& config, std::string_view chosen_by, std::string_view key,
                     std::string_view chosen, const std::vector<KeyReader>& readers,
                     const std::string& origin) {
  const std::string path = fmt::format("{}.{}", chosen_by.substr(0, chosen_by.rfind('.')), key);
  const Field* const field = find_field(path);
  EQT_CHECK(field != nullptr, "\"{}\" of {} reads {}, which is no key", chosen, chosen_by, path);
  const Json found = field->read(config);
  if (found == field->read(RunConfig{})) return;
  std::string names;
  for (const KeyReader& reader : readers)
    if (reader.reads) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", reader.name);
  fail(Kind::usage, "{}: expected {} {} only with {} {}, found it with \"{}\"; leave it out",
       origin, path, shown(found), chosen_by, names, chosen);
}

std::optional<codec::Option> compressor_option(std::string_view name) {
  using codec::Option;
  constexpr std::pair<std::string_view, Option> kReaders[] = {{"bits", Option::bits},
                                                              {"bucket_size", Option::bucket_size},
                                                              {"norm", Option::norm},
                                                              {"levels", Option::levels},
                                                              {"elasticity", Option::elasticity},
                                                              {"coding", Option::coding},
                                                              {"table", Option::table},
                                                              {"rate", Option::rate},
                                                              {"rounding", Option::rounding},
                                                              {"atoms", Option::atoms},
                                                              {"rank", Option::rank},
                                                              {"threshold", Option::threshold},
                                                              {"density", Option::density},
                                                              {"value_bits", Option::value_bits},
                                                              {"unbiased", Option::unbiased},
                                                              {"clip", Option::clip},
                                                              {"granularity", Option::granularity},
                                                              {"menu", Option::menu}};
  const auto* const reader =
      std::ranges::find(kReaders, name, &std::pair<std::string_view, Option>::first);
  if (reader == std::end(kReaders)) return {};
  return reader->second;
}

namespace {

/// Returns true if the compressor's grades are chosen by a key of its section; empty if that is no
/// key of choosing grades.
std::optional<bool> chooses_grades_by(const CompressorConfig& compressor, std::string_view name) {
  constexpr std::string_view kAlways[] = {"observe_every", "decide_every", "link"};
  constexpr std::string_view kByNoise[] = {"noise_share", "noise_cap"};
  const bool by_error = name == "error_share";
  const bool by_noise = std::ranges::count(kByNoise, name) > 0;
  if (!by_error && !by_noise && std::ranges::count(kAlways, name) == 0) return {};
  if (!compressor.adapts_grades()) return false;
  // Grades that need a memory are judged by what stays in it, the others by their noise.
  const bool remembers = compressor.make()->properties().needs_feedback;
  return by_error ? remembers : !by_noise || !remembers;
}

/// Returns true if the compressor reads a key of its section, or if no other compressor does not.
bool reads_compressor_key(const CompressorConfig& compressor, std::string_view name) {
  // Levels to which values go to the nearest follow from the values.
  constexpr std::string_view kOfLevels[] = {"norm", "levels", "elasticity", "table"};
  if (compressor.rounding == codec::Rounding::nearest && std::ranges::count(kOfLevels, name) > 0)
    return false;
  if (compressor.rate && name == "bits") return false;
  // DGC's memory and the fit of levels are beside the codec, whose options do not name them.
  constexpr std::string_view kOfMemory[] = {"warmup_epochs", "clip_norm", "momentum_masking"};
  if (std::ranges::count(kOfMemory, name) > 0) return compressor.make()->properties().forgets_sent;
  if (name == "adapt_every") return compressor.make()->adaptive_levels() != nullptr;
  if (const auto chooses = chooses_grades_by(compressor, name)) return *chooses;
  const std::optional<codec::Option> option = compressor_option(name);
  return !option || compressor.name->reads.has(*option);
}

/// Returns true if the schedule reads a key of its section, or if all schedules do.
bool reads_schedule_key(const RunConfig& config, std::string_view name) {
  const auto reads = [&](const Entry<optim::ScheduleRow> row) {
    return std::ranges::count(row->read_beside, name) > 0;
  };
  return reads(config.schedule.kind) || std::ranges::none_of(optim::ScheduleRow::all(), reads);
}

/// Names a key that has an effect only where others say so.
struct SwitchedKey {
  std::string_view key;
  bool (*has_effect)(const RunConfig& config);
};

bool balances(const RunConfig& config) { return config.train.balances(); }
bool tunes(const RunConfig& config) { return config.train.tunes(); }

constexpr SwitchedKey kSwitchedKeys[] = {
    {"model.new_head",
     [](const RunConfig& config) {
       const RunConfig::Model& model = config.model;
       return !model.weights.empty() || (model.name->from_folder && !model.path.empty());
     }},
    {"train.batch_least", balances},
    {"train.balance_every", balances},
    {"train.rollback_factor",
     [](const RunConfig& config) { return config.train.on_divergence == OnDivergence::rollback; }},
    {"train.tune_epochs", tunes},
    {"train.tune_rates", tunes},
    {"synchronization.bucket_mib",
     [](const RunConfig& config) {
       const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
       return algorithm.averages() || algorithm.mixes;
     }},
    {"synchronization.overlap",
     [](const RunConfig& config) {
       // Models are sent while the network computes only if they are late, or come before it.
       const auto& s = config.synchronization;
       return s.algorithm->averages_gradients || s.delay.count != 0u ||
              s.order == sync::Order::combine_then_adapt;
     }},
    {"synchronization.topology.rows",
     [](const RunConfig& config) {
       const auto& s = config.synchronization;
       return s.algorithm->mixes && row_of(s.topology.kind).has_rows;
     }},
    {"checkpoint.keep", [](const RunConfig& config) {
       return config.checkpoint.every_steps > 0 || config.checkpoint.every_epochs > 0;
     }}};

bool has_effect(const RunConfig& config, std::string_view key) {
  const auto* const switched = std::ranges::find(kSwitchedKeys, key, &SwitchedKey::key);
  if (switched != std::end(kSwitchedKeys)) return switched->has_effect(config);
  constexpr std::string_view kCompressor = "compressor.";
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (key.starts_with(kCompressor)) {
    const std::string_view name = key.substr(kCompressor.size());
    return algorithm.exchanges() && !algorithm.lazy &&
           reads_compressor_key(config.compressor, name);
  }
  if (key.starts_with("synchronization.topology.")) return algorithm.mixes;
  constexpr std::string_view kSchedule = "schedule.";
  if (key.starts_with(kSchedule)) return reads_schedule_key(config, key.substr(kSchedule.size()));
  return true;
}

}  // namespace

std::vector<std::string> keys_without_effect(const RunConfig& config) {
  std::vector<std::string> keys;
  for (const std::string& key : deciding_keys(config))
    if (!has_effect(config, key)) keys.push_back(key);
  return keys;
}

}  // namespace eqt::config
