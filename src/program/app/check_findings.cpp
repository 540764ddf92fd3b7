// SPDX-License-Identifier: Apache-2.0
#include "app/check_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "model/replica.hpp"
#include "setup/build_model.hpp"
#include "setup/local_data.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kShownClasses = 20;
constexpr std::size_t kShownRanks = 16;

/// "cat 6, dog 4"; of many classes the first ones.
std::string classes_text(const std::vector<std::string>& names,
                         const std::vector<std::uint64_t>& counts) {
  std::string text;
  for (std::size_t c = 0; c < std::min(counts.size(), kShownClasses); ++c)
    text += fmt::format("{}{} {}", c == 0 ? "" : ", ",
                        c < names.size() ? names[c] : fmt::format("{}", c), counts[c]);
  if (counts.size() > kShownClasses) {
    const auto rest = counts.begin() + kShownClasses;
    text +=
        fmt::format(", and {} more with {} to {} samples", counts.size() - kShownClasses,
                    *std::min_element(rest, counts.end()), *std::max_element(rest, counts.end()));
  }
  return text;
}

std::string shapes_text(const std::vector<data::ArraySpec>& inputs,
                        const std::optional<data::ArraySpec>& target) {
  std::string text = "inputs " + data::text_of(inputs);
  if (target) text += ", targets " + data::text_of(*target);
  return text;
}

std::vector<std::uint64_t> counts_of(const data::Dataset& set) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(set.classes()));
  if (!counts.empty())
    for (const int label : data::labels_of(set)) ++counts.at(static_cast<std::size_t>(label));
  return counts;
}

std::string samples_text(std::size_t train, std::size_t test) {
  return fmt::format("{} training and {} test samples", train, test);
}

std::string samples_text(const data::DatasetPair& pair) {
  return samples_text(pair.train->size(), pair.test == nullptr ? 0 : pair.test->size());
}

void add_notes(const data::DatasetPair& pair, std::vector<std::string>& lines) {
  for (const std::string& note : pair.notes) lines.push_back("note: " + note);
}

std::vector<std::string> shared_findings(const config::RunConfig& config) {
  const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config));
  std::vector<std::string> lines = {
      fmt::format("data: {}, {}, {}", config.data.name->name, samples_text(pair),
                  shapes_text(pair.train->inputs(), pair.train->target()))};
  if (const auto counts = counts_of(*pair.train); !counts.empty())
    lines.push_back(
        fmt::format("classes: {} ({})", counts.size(), classes_text(pair.class_names, counts)));
  add_notes(pair, lines);
  return lines;
}

/// Each rank's set is opened, told and closed again.
std::vector<std::string> local_findings(const config::RunConfig& config, int ranks) {
  std::vector<std::string> lines, told;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config, rank));
    told.push_back(setup::told(pair));
    if (rank == 0)
      lines.push_back(fmt::format("data: {}, a set for each of {} ranks, {}",
                                  config.data.name->name, ranks,
                                  shapes_text(pair.train->inputs(), pair.train->target())));
    if (static_cast<std::size_t>(rank) >= kShownRanks) continue;
    const auto counts = counts_of(*pair.train);
    lines.push_back(fmt::format("data of rank {}: {}{}{}{}", rank, samples_text(pair),
                                counts.empty() ? "" : " (", classes_text(pair.class_names, counts),
                                counts.empty() ? "" : ")"));
    add_notes(pair, lines);
  }
  const setup::LocalData all = setup::known_of(told);
  (void)setup::local_steps_per_epoch(config, all);
  std::vector<std::uint64_t> counts(all.class_names.size());
  for (const auto& of_rank : all.class_histogram)
    for (std::size_t c = 0; c < counts.size(); ++c) counts[c] += of_rank[c];
  if (!counts.empty())
    lines.push_back(fmt::format("classes: {} of all ranks ({})", counts.size(),
                                classes_text(all.class_names, counts)));
  return lines;
}

}  // namespace

std::vector<std::string> data_findings(const config::RunConfig& config,
                                       const data::DatasetFacts& facts, int ranks) {
  if (config.train.is_emulated()) return {};
  if (setup::has_local_data(config)) return local_findings(config, ranks);
  if (config.data.name->needs_files) return shared_findings(config);
  const auto limited = [](std::size_t samples, std::size_t limit) {
    return limit == 0 ? samples : std::min(samples, limit);
  };
  return {fmt::format("data: {}, {}, {}", config.data.name->name,
                      samples_text(limited(facts.train, config.data.limit_train),
                                   limited(facts.test, config.data.limit_test)),
                      shapes_text(facts.inputs, facts.target))};
}

std::vector<std::string> own_set_findings(const config::RunConfig& config) {
  std::error_code error;
  const std::string place = setup::place_of(config.data.path, 0);
  if (config.data.path.find("{rank}") != std::string::npos) return {};
  if (!std::filesystem::exists(place, error))
    return {fmt::format("data of this host: there is no {}", place)};
  constexpr Rank kAny = 1;  // rank 0 may have to bring the test set of all
  const data::DatasetPair pair = data::open_dataset(setup::dataset_options(config, kAny));
  const auto counts = counts_of(*pair.train);
  std::vector<std::string> lines = {fmt::format(
      "data of this host: {}, {}{}{}{}, {}", config.data.name->name, samples_text(pair),
      counts.empty() ? "" : " (", classes_text(pair.class_names, counts), counts.empty() ? "" : ")",
      shapes_text(pair.train->inputs(), pair.train->target()))};
  add_notes(pair, lines);
  const bool every_rank = config.data.partition.epoch == data::LocalEpoch::smallest;
  if (every_rank && !config.train.has_batches_by_rank()) {
    setup::LocalData own;
    own.train_samples = {pair.train->size()};
    (void)setup::local_steps_per_epoch(config, own);
  }
  return lines;
}

std::vector<std::string> weight_findings(const config::RunConfig& config,
                                         const data::DatasetFacts& facts) {
  if (config.train.is_emulated() || !setup::has_initial_weights(config)) return {};
  const std::unique_ptr<model::Replica> network = model::make_idle_replica(
      setup::network_for(config, {facts.inputs, facts.target, facts.classes}));
  const setup::InitialWeights weights = setup::load_initial_weights(config, *network);
  std::vector<std::string> lines;
  for (const std::string& file : weights.files)
    lines.push_back(fmt::format("weights: {} fits", file));
  for (const std::string& note : weights.notes) lines.push_back(fmt::format("weights: {}", note));
  return lines;
}

}  // namespace eqt::app
