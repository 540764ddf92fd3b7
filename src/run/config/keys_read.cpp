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
                                                              {"menu", Option::menu},
                                                              {"noise_share", Option::menu},
                                                              {"noise_cap", Option::menu},
                                                              {"error_share", Option::menu},
                                                              {"observe_every", Option::menu},
                                                              {"decide_every", Option::menu}};
  const auto* const reader =
      std::ranges::find(kReaders, name, &std::pair<std::string_view, Option>::first);
  if (reader == std::end(kReaders)) return {};
  return reader->second;
}

namespace {

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

bool has_effect(const RunConfig& config, std::string_view key) {
  constexpr std::string_view kCompressor = "compressor.";
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (key.starts_with(kCompressor)) {
    const std::string_view name = key.substr(kCompressor.size());
    return algorithm.exchanges() && !algorithm.lazy &&
           reads_compressor_key(config.compressor, name);
  }
  if (key.starts_with("synchronization.topology.")) return algorithm.mixes;
  if (key == "synchronization.bucket_mib" || key == "synchronization.overlap")
    return algorithm.exchanges();
  if (key == "checkpoint.keep")
    return config.checkpoint.every_steps > 0 || config.checkpoint.every_epochs > 0;
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
