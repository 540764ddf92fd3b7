// SPDX-License-Identifier: Apache-2.0
#include "setup/build_model.hpp"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "model/emulated_replica.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_text.hpp"
#include "setup/look_at_data.hpp"
#include "setup/parameter_rules.hpp"

namespace eqt::setup {
namespace {

/// This rank's seconds per step.
double emulated_seconds(const config::PerRank& seconds, const comm::Communicator& comm) {
  if (const double* const same = std::get_if<double>(&seconds)) return *same;
  const auto& list = std::get<std::vector<double>>(seconds);
  if (list.size() != static_cast<std::size_t>(comm.size())) {
    fail(Kind::usage,
         "train.emulate_compute: expected one number, or a list of {}, one per rank, found a list "
         "of {}; start as many ranks as it has numbers",
         comm.size(), list.size());
  }
  return list[static_cast<std::size_t>(comm.rank())];
}

/// A network of the user's own. LibTorch holds it in memory as well.
std::string read_module(const std::string& path) {
  return read_whole_file(path, {.what = "a TorchScript module",
                                .max_bytes = std::uint64_t{8} << 30,
                                .remedy = "check model.path"});
}

/// Samples / (classes * samples of the class): their mean over the samples is 1 (G. King, L. Zeng,
/// "Logistic regression in rare events data", 2001). A class without samples has the weight 1.
/// @param counts (classes) samples of all ranks
std::vector<double> balanced_weights(const std::vector<std::uint64_t>& counts) {
  const auto samples =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  const double share = samples / static_cast<double>(counts.size());
  std::vector<double> weights;
  for (const std::uint64_t count : counts)
    weights.push_back(count > 0 ? share / static_cast<double>(count) : 1);
  return weights;
}

std::vector<double> class_weights(const config::RunConfig& config,
                                  const std::vector<std::uint64_t>& counts) {
  const config::ClassWeights& weights = config.task.class_weights;
  if (std::holds_alternative<config::WeightRule>(weights)) return balanced_weights(counts);
  if (const auto* const list = std::get_if<std::vector<double>>(&weights)) return *list;
  return {};
}

}  // namespace

model::ModelOptions published_network(const config::RunConfig& config, Rank rank) {
  model::ModelOptions options = model::published_options(*config.model.name);
  options.normalization = config.model.normalization;
  options.norm_groups = config.model.norm_groups;
  options.shortcut = config.model.shortcut;
  options.precision = config.model.precision;
  options.int8 = config.model.int8;
  options.seed = config.seed;
  options.freeze = frozen_patterns(config);
  if (config.model.name->users_own) {
    options.path = place_of(config.model.path, rank);
    options.script = std::make_shared<const std::string>(read_module(options.path));
  }
  options.encoder = encoder_shape(config, rank);
  if (options.encoder) options.path = place_of(config.model.path, rank);
  return options;
}

model::ModelOptions network_for(const config::RunConfig& config, const LearntData& data,
                                Rank rank) {
  model::ModelOptions options = published_network(config, rank);
  options.inputs = data.inputs;
  options.target = data.target;
  options.outputs =
      model::outputs_of(*config.task.kind, config.data.name->name, data.target, data.classes);
  options.task.kind = config.task.kind;
  options.task.label_smoothing = config.task.label_smoothing;
  options.task.mixup = config.train.mixup;
  if (const auto* const list = std::get_if<std::vector<double>>(&config.task.class_weights))
    options.task.class_weights = *list;
  return options;
}

ModelParts build_emulated_model(const config::RunConfig& config, const comm::Communicator& comm) {
  const double seconds = emulated_seconds(config.train.emulate_compute, comm);
  ModelParts parts;
  parts.threads = threads_for(config, comm);
  model::set_threads(1);
  const model::ModelOptions options = published_network(config);
  parts.replica = model::make_emulated_replica(model::make_idle_replica(options),
                                               {.step_seconds = seconds,
                                                .batch_size = config.train.batch_size,
                                                .image_side = model::images_of(options).height,
                                                .seed = config.seed,
                                                .rank = comm.rank()});
  return parts;
}

ModelParts build_model(const config::RunConfig& config, const comm::Communicator& comm,
                       int simulate, const DataParts& data) {
  ModelParts parts;
  parts.threads = threads_for(config, comm, simulate);
  model::set_threads(parts.threads);
  const data::Dataset& set = *data.sets.train;
  model::ModelOptions options =
      network_for(config, {set.inputs(), set.target(), set.classes()}, comm.rank());
  options.task.class_weights = class_weights(config, data.class_counts);
  options.rank = comm.rank();
  parts.measures = {.task = config.task.kind, .outputs = options.outputs};
  parts.replica = model::make_replica(options);
  if (options.script != nullptr)
    parts.file_hash = checksum(std::as_bytes(std::span(*options.script)), 0);
  // The other ranks receive rank 0's parameters, so its node alone needs the files.
  if (const std::string file = pretrained_weights(config); !file.empty() && comm.rank() == 0)
    parts.replica->load_pretrained(file);
  if (!config.model.weights.empty() && comm.rank() == 0) {
    parts.replica->load_weights(config.model.weights);
  }
  if (data.simulation != nullptr) build_workers(*parts.replica, *data.simulation);
  return parts;
}

}  // namespace eqt::setup
