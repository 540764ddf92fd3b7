// SPDX-License-Identifier: Apache-2.0
// Run folders as the program writes them, with known figures.

#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace eqt::test {

/// The contents of a run folder. Each list has a value per epoch; null is none.
struct MadeRun {
  std::string name = "made", compressor = "none", dataset = "cifar10", seed = "1";
  int ranks = 2;
  nlohmann::json losses = {2.0, 1.0}, accuracies = {0.25, 0.5};
  double sent_bytes = 4e6;                             // of all ranks in an epoch
  double seconds = 10;                                 // of an epoch of 10 steps
  nlohmann::json settings = nlohmann::json::object();  // of the config, over the usual ones
  nlohmann::json run = nlohmann::json::object();       // of the run's record, over the usual ones
  nlohmann::json summary = nlohmann::json::object();   // of the summary, over the usual ones
  bool finished = true;
};

inline nlohmann::json config_of(const MadeRun& made) {
  nlohmann::json config = {{"name", made.name},
                           {"seed", std::stoi(made.seed)},
                           {"model", {{"name", "resnet20"}, {"precision", "fp32"}}},
                           {"data", {{"name", made.dataset}, {"path", "/data"}}},
                           {"train", {{"epochs", made.losses.size()}, {"batch_size", 64}}},
                           {"compressor", {{"name", made.compressor}}}};
  config.merge_patch(made.settings);
  return config;
}

inline nlohmann::json run_record_of(const MadeRun& made) {
  nlohmann::json record = {{"type", "run"},
                           {"schema", 1},
                           {"name", made.name},
                           {"version", "0.1.0"},
                           {"host", "here"},
                           {"ranks", made.ranks},
                           {"model", "resnet20"},
                           {"dataset", made.dataset},
                           {"compressor", made.compressor},
                           {"algorithm", "allreduce"},
                           {"parameters", 272474},
                           {"train_samples", 1000},
                           {"test_samples", 100},
                           {"class_histogram", nullptr}};
  record.merge_patch(made.run);
  return record;
}

inline nlohmann::json epoch_record_of(const MadeRun& made, std::size_t i) {
  const double s = made.seconds;
  return {{"type", "epoch"},
          {"epoch", i + 1},
          {"step", 10 * (i + 1)},
          {"train_loss", made.losses[i]},
          {"test_accuracy", made.accuracies[i]},
          {"test_loss", made.losses[i]},
          {"images_per_second", 128},
          {"seconds",
           {{"data", 0},
            {"compute", 0.5 * s},
            {"encode", 0.125 * s},
            {"transfer", 0.25 * s},
            {"decode", 0.0625 * s},
            {"update", 0.0625 * s},
            {"total", s}}},
          {"sent_bytes", static_cast<std::uint64_t>(made.sent_bytes)},
          {"compression_ratio", 2},
          {"bits_per_value", 16},
          {"quantization_variance", 0.125},
          {"mean_quantization_variance", 0.0625}};
}

inline nlohmann::json summary_of(const MadeRun& made) {
  const std::size_t epochs = made.losses.size();
  nlohmann::json summary = {{"name", made.name},
                            {"epochs", epochs},
                            {"steps", 10 * epochs},
                            {"train_loss", made.losses.back()},
                            {"test_accuracy", made.accuracies.back()},
                            {"wall_seconds", made.seconds * static_cast<double>(epochs)},
                            {"sent_bytes", static_cast<std::uint64_t>(made.sent_bytes) * epochs},
                            {"compression_ratio", 2},
                            {"bits_per_value", 16},
                            {"quantization_variance", 0.125},
                            {"mean_quantization_variance", 0.03125},
                            {"parameter_hash", "0123456789abcdef"}};
  summary.merge_patch(made.summary);
  return summary;
}

/// Writes the folder, which may not exist yet.
inline void make_run(const std::filesystem::path& folder, const MadeRun& made) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config_of(made).dump(2) << "\n";
  std::ofstream records(folder / "metrics.jsonl");
  records << run_record_of(made).dump() << "\n";
  for (std::size_t i = 0; i < made.losses.size(); ++i)
    records << R"({"type":"step","step":)" << 10 * i + 1 << "}\n"
            << epoch_record_of(made, i).dump() << "\n";
  if (made.finished) std::ofstream(folder / "summary.json") << summary_of(made).dump(2) << "\n";
}

}  // namespace eqt::test
