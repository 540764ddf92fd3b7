// SPDX-License-Identifier: Apache-2.0
#include "app/trained_run.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "app/verbs.hpp"
#include "comm/host_facts.hpp"
#include "config/document.hpp"
#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "metrics/run_files.hpp"
#include "setup/build_model.hpp"
#include "setup/named_files.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;
namespace files = metrics::run_files;

constexpr FileLimits kEncoderFile{.what = "the shape of a run's network",
                                  .max_bytes = std::uint64_t{1} << 20,
                                  .remedy = "train again"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

bool is_run_folder(const std::string& path) { return is_file(fs::path(path) / files::kConfig); }

config::RunConfig parse_trained_config(const std::string& text, const std::string& origin,
                                       const std::vector<std::string>& sets) {
  config::Json document = config::parse_document(text, origin);
  for (const char* const section : {"train", "optimizer", "schedule", "synchronization",
                                    "compressor", "checkpoint", "output", "device"})
    document.erase(section);
  // It is of training alone, and names parameters that groups of the optimizer may have frozen.
  if (const auto model = document.find("model"); model != document.end() && model->is_object())
    model->erase("frozen_norms");
  return config::parse_config(document.dump(), origin, sets);
}

TrainedRun open_run(const std::string& folder, bool best) {
  const fs::path path(folder);
  if (!is_run_folder(folder))
    fail(Kind::data, "expected a run folder at {}, found none with config.json; {}", folder,
         nearest_or(folder, "name what --out was given"));
  TrainedRun run;
  run.folder = folder;
  const std::string config_path = (path / files::kConfig).string();
  run.config = parse_trained_config(read_config_file(config_path), config_path, {});
  run.weights = (path / (best ? files::kBestWeights : files::kLastWeights)).string();
  if (!is_file(run.weights))
    fail(Kind::data, "expected weights at {}, found none; {}", run.weights,
         best ? "train with checkpoint.best, or leave --best out"
              : "wait for the end of the run, which writes them");
  run.input = read_preprocessing((path / files::kPreprocessing).string());
  return run;
}

std::vector<std::string> files_of(const TrainedRun& run) {
  std::vector<std::string> files = {run.weights};
  for (const setup::NamedFile& file : setup::network_files(run.config))
    files.push_back(file.path.string());
  return files;
}

model::ModelOptions network_options(const TrainedRun& run) {
  config::RunConfig config = run.config;
  const fs::path own = fs::path(run.folder) / files::kOwnNetwork;
  if (config.model.name->users_own && is_file(own)) config.model.path = own.string();
  const fs::path encoder = fs::path(run.folder) / files::kEncoder;
  const bool has_encoder = config.model.name->from_folder && is_file(encoder);
  if (has_encoder) config.model.path.clear();
  // Classes without names are as many as the targets may be.
  const auto named = static_cast<std::int64_t>(run.input.class_names.size());
  const std::int64_t classes = named == 0 && run.input.target ? run.input.target->bound : named;
  model::ModelOptions options = setup::network_for(config, {.inputs = run.input.inputs,
                                                            .target = run.input.target,
                                                            .classes = static_cast<int>(classes)});
  if (has_encoder)
    options.encoder =
        model::parse_encoder_config(read_whole_file(encoder, kEncoderFile), encoder.string());
  return options;
}

std::unique_ptr<model::Replica> load_network(const TrainedRun& run, int threads) {
  model::set_threads(threads > 0 ? threads : comm::online_cores());
  const OwnNetworkDeadline deadline(run.config);
  auto replica = model::make_replica(network_options(run));
  replica->load_weights(run.weights);
  return replica;
}

}  // namespace eqt::app
