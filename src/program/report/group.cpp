// SPDX-License-Identifier: Apache-2.0
#include "report/group.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "report/values.hpp"

namespace eqt::report {
namespace {

using Settings = std::map<std::string, std::string>;
constexpr std::string_view kAbsent = "-";
constexpr const char* kState = "state";  // not a config key: the epochs that a run completed

/// True if a key affects where and how results are written, but not what is computed.
bool is_irrelevant(std::string_view key) {
  constexpr std::array<std::string_view, 5> kKeys = {"name", "seed", "data.path", "train.paranoid",
                                                     "synchronization.timeout_seconds"};
  constexpr std::array<std::string_view, 2> kSections = {"output.", "checkpoint."};
  const auto begins = [&](std::string_view section) { return key.starts_with(section); };
  return std::ranges::find(kKeys, key) != kKeys.end() || std::ranges::any_of(kSections, begins);
}

/// "finished", or how it ended and its last epoch.
std::string state_of(const Run& run) {
  if (run.finished) return "finished";
  std::string text = fmt::format("{}, epoch {}", run.end, run.outcome.epochs);
  if (run.planned_epochs > 0) text += fmt::format(" of {}", run.planned_epochs);
  return text;
}

std::string value_of(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? std::string(kAbsent) : found->second;
}

/// The path of files of the user's own, without the folders above: "/data/cats" and "/mnt/cats" are
/// the same on two machines.
std::string own_data(const Run& run) {
  return has_own_data(run) ? last_name(run.setting("data.path")) : "";
}

Settings relevant_settings(const Run& run) {
  Settings settings;
  if (const std::string data = own_data(run); !data.empty()) settings["data.path"] = data;
  if (run.train_samples > 0) settings["samples"] = samples_of(run);
  for (const auto& [key, value] : run.settings)
    if (!is_irrelevant(key)) settings[key] = value;
  settings[kState] = state_of(run);
  return settings;
}

/// Keys with at least two values among those that have them.
std::vector<std::string> varying_keys(const std::vector<Settings>& all) {
  std::map<std::string, std::set<std::string>> values;
  for (const Settings& settings : all)
    for (const auto& [key, value] : settings) values[key].insert(value);
  std::vector<std::string> keys;
  for (const auto& [key, found] : values)
    if (found.size() > 1) keys.push_back(key);
  return keys;
}

/// The settings that best distinguish runs come first in a label.
std::size_t rank_in_labels(const std::string& key) {
  constexpr std::array<std::string_view, 17> kFirst = {"simulated",
                                                       "model.name",
                                                       "synchronization.algorithm",
                                                       "compressor.name",
                                                       "optimizer.momentum_kind",
                                                       "compressor.bits",
                                                       "compressor.coding",
                                                       "compressor.density",
                                                       "compressor.rank",
                                                       "data.partition.skew",
                                                       "data.partition.alpha",
                                                       "ranks",
                                                       "link.rate",
                                                       "synchronization.collective",
                                                       "model.normalization",
                                                       "model.precision",
                                                       "optimizer.learning_rate"};
  return static_cast<std::size_t>(std::ranges::find(kFirst, key) - kFirst.begin());
}

/// "qsgd", "bits 4", "ranks 2"; empty for default or missing values.
std::string label_part(const std::string& key, const std::string& value) {
  if (value == kAbsent) return "";
  if (key == "compressor.name") return compressor_words(value);
  if (key == "synchronization.algorithm" && value == "none") return "no communication";
  constexpr std::array<std::string_view, 7> kValuesAlone = {"simulated",
                                                            "model.name",
                                                            "synchronization.algorithm",
                                                            "synchronization.collective",
                                                            "model.normalization",
                                                            "model.precision",
                                                            kState};
  if (std::ranges::find(kValuesAlone, key) != kValuesAlone.end()) return value;
  if (key == "link.rate") return value;
  if (key == "optimizer.momentum_kind") return value == "local" ? "" : value + " momentum";
  return fmt::format("{} {}", key.substr(key.rfind('.') + 1), value);
}

/// Returns what labels call the values of a key; paths get the shortest ends that tell them apart.
std::map<std::string, std::string> names_of_values(const std::string& key,
                                                   const std::set<std::string>& values) {
  constexpr std::array<std::string_view, 5> kPaths = {".path", ".file", ".weights", ".vocabulary",
                                                      ".replay"};
  const auto ends = [&](std::string_view end) { return key.ends_with(end); };
  const bool paths = std::ranges::any_of(kPaths, ends);
  const auto end_of = [](std::string_view path, std::size_t parts) {
    std::size_t at = path.size();
    for (; parts > 0 && at != std::string_view::npos && at > 0; --parts)
      at = path.rfind('/', at - 1);
    return std::string(path.substr(at == std::string_view::npos || parts > 0 ? 0 : at + 1));
  };
  std::map<std::string, std::string> names;
  for (const std::string& value : values) {
    std::size_t parts = 1;
    const auto is_shared = [&](const std::string& other) {
      return other != value && end_of(other, parts) == end_of(value, parts);
    };
    while (paths && std::ranges::any_of(values, is_shared)) ++parts;
    names[value] = paths ? end_of(value, parts) : value;
  }
  return names;
}

void add_part(std::string& label, const std::string& part) {
  if (!label.empty() && !part.empty()) label += ", ";
  label += part;
}

/// Labels that distinguish groups: key by key, each only if it still distinguishes some.
void add_labels(std::vector<Group*> alike, const std::vector<std::string>& keys, std::size_t next) {
  if (alike.size() < 2) return;
  for (; next < keys.size(); ++next) {
    std::map<std::string, std::vector<Group*>> parts;
    for (Group* group : alike) parts[group->differences[next].second].push_back(group);
    if (parts.size() < 2) continue;
    std::set<std::string> values;
    for (const auto& [value, groups] : parts) values.insert(value);
    const std::map<std::string, std::string> names = names_of_values(keys[next], values);
    for (const auto& [value, groups] : parts) {
      for (Group* group : groups) add_part(group->label, label_part(keys[next], names.at(value)));
      add_labels(groups, keys, next + 1);
    }
    return;
  }
}

/// Labels groups by the rows of their sweep, whose author has named them; false if that does not
/// tell them apart.
bool label_by_rows(std::vector<Group>& groups) {
  std::set<std::string> labels;
  for (const Group& group : groups) {
    const std::string& row = group.first().row;
    const auto other = [&](const Run* run) { return run->row != row; };
    if (row.empty() || std::ranges::any_of(group.runs, other)) return false;
    if (!labels.insert(row + state_of(group.first())).second) return false;
  }
  for (Group& group : groups) group.label = group.first().row;
  return true;
}

void label(std::vector<Group>& groups, const std::vector<std::string>& keys) {
  std::vector<Group*> all;
  for (Group& group : groups) all.push_back(&group);
  if (!label_by_rows(groups)) add_labels(all, keys, 0);
  for (Group& group : groups) {
    const std::string state = state_of(group.first());
    if (group.label.empty()) group.label = compressor_words(group.first().compressor);
    if (group.label.empty()) group.label = group.first().name;
    if (!group.finished() && group.label.find(state) == std::string::npos)
      group.label += " (" + state + ")";
  }
}

}  // namespace

std::vector<Group> groups_of(const std::vector<Run>& runs) {
  std::vector<Settings> settings;
  for (const Run& run : runs) settings.push_back(relevant_settings(run));
  std::vector<std::string> keys = varying_keys(settings);
  std::ranges::stable_sort(keys, {}, rank_in_labels);
  std::vector<Group> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Group group{"", {&runs[i]}, {}};
    for (const std::string& key : keys)
      group.differences.emplace_back(key, value_of(settings[i], key));
    const auto same = std::ranges::find(groups, group.differences, &Group::differences);
    if (same == groups.end()) {
      groups.push_back(group);
    } else {
      same->runs.push_back(&runs[i]);
    }
  }
  label(groups, keys);
  std::ranges::stable_sort(groups, {}, &Group::label);
  return groups;
}

bool is_comparable(const Group& group, const std::vector<Group>& groups) {
  return group.finished() || std::ranges::none_of(groups, &Group::finished);
}

std::vector<const Run*> lost_runs(const Group& group, const std::vector<Group>& groups) {
  std::vector<const Run*> lost;
  if (!group.finished()) return lost;
  const auto alike = [](const auto& a, const auto& b) { return a.first == kState || a == b; };
  for (const Group& other : groups)
    if (!other.finished() && std::ranges::equal(group.differences, other.differences, alike))
      lost.insert(lost.end(), other.runs.begin(), other.runs.end());
  return lost;
}

void check_one_data_set(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const Run& first = runs.front();
    if (run.dataset == first.dataset) continue;
    fail(Kind::usage,
         "report: expected runs of one data set, found {} in {} and {} in {}, whose losses and "
         "accuracies cannot be compared; name the folders of one data set at a time",
         first.dataset, first.folder, run.dataset, run.folder);
  }
}

}  // namespace eqt::report
