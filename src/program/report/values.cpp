// SPDX-License-Identifier: Apache-2.0
#include "report/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/catalogue.hpp"
#include "figures/text.hpp"
#include "model/catalogue.hpp"

namespace eqt::report {

std::string values_of(const std::vector<const Run*>& runs, const TextOf& of) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> values;
  for (const Run* run : runs) {
    const std::string value = of(*run);
    if (!value.empty() && std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  std::string text;
  const bool with_commas = std::ranges::any_of(
      values, [](const std::string& value) { return value.find(',') != std::string::npos; });
  for (std::size_t i = 0; i < std::min(values.size(), kShown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : with_commas ? "; " : ", ", values[i]);
  if (values.size() > kShown) text += fmt::format(" and {} more", values.size() - kShown);
  return text;
}

TextOf setting(const char* key) {
  return [key](const Run& run) { return run.setting(key); };
}

std::string normalization_of(const Run& run) {
  const model::ModelRow* const network = model::ModelRow::all().find(run.model);
  if (network != nullptr && !network->normalizes) return "";
  return run.setting("model.normalization");
}

std::string compressor_words(const std::string& name) { return name == "none" ? "float32" : name; }

std::string pixels_of(const Run& run) {
  const std::string side = run.setting("data.resize", "0");
  return side == "0" ? "" : fmt::format(" at {0} x {0} pixels", side);
}

bool has_own_data(const Run& run) {
  const data::DatasetRow* const row = data::DatasetRow::all().find(run.dataset);
  return row != nullptr && row->is_own;
}

std::string row_prefix(const Run& run, const std::vector<Run>& runs) {
  return runs.size() == 1 ? "" : figures::tail_of(run.title(), 24) + ": ";
}

std::string last_name(const std::string& path) {
  const std::filesystem::path folder(path);
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

std::string samples_of(const Run& run) {
  if (run.train_samples == 0) return "none: gradients are drawn, no network is run";
  return fmt::format("{} training, {} test", run.train_samples, run.test_samples);
}

}  // namespace eqt::report
