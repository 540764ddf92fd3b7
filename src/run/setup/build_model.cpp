// SPDX-License-Identifier: Apache-2.0
#include "setup/build_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "comm/host_facts.hpp"
#include "config/checks.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/pattern.hpp"
#include "core/whole_file.hpp"
#include "data/images.hpp"
#include "model/whitening.hpp"
#include "setup/build_messages.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::setup {
namespace {

/// The rank's number; 0 if there is none.
double of_rank(const config::PerRank& value, const char* key, Rank rank, int ranks) {
  if (std::holds_alternative<std::monostate>(value)) return 0;
  if (const double* const same = std::get_if<double>(&value)) return *same;
  const auto& list = std::get<std::vector<double>>(value);
  if (list.size() != static_cast<std::size_t>(ranks)) {
    fail(Kind::usage,
         "{}: expected one number, or a list of {}, one per rank, found a list of {}; start as "
         "many ranks as it has numbers",
         key, ranks, list.size());
  }
  return list[static_cast<std::size_t>(rank)];
}

forecast::BoardSpeed board_speed(const config::RunConfig::Train& train, Rank rank, int ranks) {
  const auto& jitter = train.emulate_jitter;
  forecast::BoardSpeed speed{
      .cv = of_rank(jitter.cv, "train.emulate_jitter.cv", rank, ranks),
      .stall_every = of_rank(jitter.stall_every, "train.emulate_jitter.stall_every", rank, ranks),
      .stall_seconds = jitter.stall_seconds,
      .changes = {}};
  for (const config::BoardChange& change : train.emulate_changes) {
    if (change.rank >= static_cast<std::uint64_t>(ranks))
      fail(Kind::usage,
           "train.emulate_changes: expected ranks from 0 to {}, found {}; start more ranks or "
           "correct it",
           ranks - 1, change.rank);
    if (change.rank == static_cast<std::uint64_t>(rank))
      speed.changes.push_back({change.step, change.factor});
  }
  return speed;
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

int device_of(const RankDevices& rank) { return rank.local % rank.count; }

/// "rank 3 on host pi3: there is no NVIDIA driver; ..."; empty if all have a device.
std::string first_obstacle(std::span<const RankDevices> ranks) {
  const auto lacks = std::ranges::find(ranks, 0, &RankDevices::count);
  if (lacks == ranks.end()) return {};
  return fmt::format("rank {} on host {}: {}", lacks - ranks.begin(), lacks->host, lacks->obstacle);
}

/// Says how many devices are used, and how many ranks share the busiest.
std::string note_on_devices(std::span<const RankDevices> ranks) {
  std::map<std::pair<Rank, int>, int> ranks_on;
  for (const RankDevices& rank : ranks) ++ranks_on[{rank.first, device_of(rank)}];
  int most = 0;
  for (const auto& [device, count] : ranks_on) most = std::max(most, count);
  std::string note =
      fmt::format("device cuda: {} rank{} on {} NVIDIA device{}", ranks.size(),
                  ranks.size() == 1 ? "" : "s", ranks_on.size(), ranks_on.size() == 1 ? "" : "s");
  if (most > 1) note += fmt::format("; up to {} ranks share one, its time and its memory", most);
  return note;
}

DeviceChoice on_processor(std::string note) {
  return {.placement = model::on_processor(), .note = std::move(note)};
}

using config::ParameterGroup;
using config::ParameterGroups;

void require_matches(const ParameterGroups& groups, const Layout& layout) {
  for (const ParameterGroup& group : groups) {
    if (group.frozen) continue;  // the network itself looks for those
    for (const std::string& pattern : group.names) {
      const auto has_match = [&](const TensorSlice& slice) { return matches(pattern, slice.name); };
      if (std::ranges::any_of(layout, has_match)) continue;
      fail(Kind::usage,
           "optimizer.groups: expected patterns that match the name of a trained parameter, found "
           "\"{}\"; the names are {} and so on to {}",
           pattern, layout.front().name, layout.back().name);
    }
  }
}

/// The first group that matches; null: none does.
const ParameterGroup* group_of(const std::string& name, const ParameterGroups& groups) {
  const auto found = std::ranges::find_if(
      groups, [&](const ParameterGroup& group) { return matches_any(group.names, name); });
  return found == groups.end() ? nullptr : &*found;
}

/// Makes the first layer of the network from the first training pictures.
void whiten(const data::Dataset& set, model::Replica& network) {
  constexpr std::size_t kMost = 5000;  // pictures, as published
  std::vector<std::size_t> first(std::min(kMost, set.size()));
  std::iota(first.begin(), first.end(), std::size_t{0});
  data::Batch pictures;
  set.read(first, std::nullopt, pictures);
  const std::vector<float> filters =
      model::whitening_filters(std::get<std::vector<float>>(pictures.inputs.front().values),
                               data::image_shape(pictures).value(), model::kWhitenedSide);
  const std::span<float> frozen = network.frozen();
  EQT_CHECK(frozen.size() >= filters.size(), "{} frozen parameters", frozen.size());
  std::ranges::copy(filters, frozen.begin());  // the first layer's are the first
}

}  // namespace

model::ModelOptions published_network(const config::RunConfig& config, Rank rank) {
  model::ModelOptions options = model::published_options(*config.model.name);
  options.normalization = config.model.normalization;
  options.norm_groups = config.model.norm_groups;
  options.shortcut = config.model.shortcut;
  options.width = config.model.width;
  options.hidden_layers = static_cast<int>(config.model.layers);
  options.hidden_width = static_cast<int>(config.model.hidden);
  options.precision = config.model.precision;
  options.int8 = config.model.int8;
  options.seed = config.seed;
  options.freeze = frozen_patterns(config);
  options.frozen_norms = config.model.frozen_norms;
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

model::EmulationOptions emulation_of(const config::RunConfig& config, Rank rank, int ranks) {
  return {
      .step_seconds = of_rank(config.train.emulate_compute, "train.emulate_compute", rank, ranks),
      .batch_size = config.train.batch_size,
      .seed = config.seed,
      .rank = rank,
      .batches = config.train.accumulate,
      .speed = board_speed(config.train, rank, ranks)};
}

ModelParts build_emulated_model(const config::RunConfig& config, const comm::Communicator& comm) {
  model::EmulationOptions emulation = emulation_of(config, comm.rank(), comm.size());
  ModelParts parts;
  parts.threads = threads_for(config, comm);
  model::set_threads(1);
  const model::ModelOptions options = published_network(config);
  emulation.image_side = model::images_of(options).height;
  parts.replica = model::make_emulated_replica(model::make_idle_replica(options), emulation);
  return parts;
}

bool has_initial_weights(const config::RunConfig& config) {
  return !config.model.weights.empty() || !pretrained_weights(config).empty();
}

InitialWeights load_initial_weights(const config::RunConfig& config, model::Replica& network) {
  InitialWeights initial;
  for (const std::string& file : {pretrained_weights(config), config.model.weights}) {
    if (file.empty()) continue;
    initial.files.push_back(file);
    const auto loaded =
        network.load_pretrained(file, config.model.new_head == model::NewHead::automatic);
    if (!loaded.resized.empty())
      initial.notes.push_back(
          fmt::format("{} of the weights file {} is resampled for pictures of this size",
                      fmt::join(loaded.resized, ", "), file));
    if (!loaded.kept.empty())
      initial.notes.push_back(
          fmt::format("{} start new: the weights file {} has none of their shape",
                      fmt::join(loaded.kept, ", "), file));
  }
  return initial;
}

ModelParts build_model(const config::RunConfig& config, const comm::Communicator& comm,
                       int simulate, const model::Placement& placement, const DataParts& data) {
  ModelParts parts;
  parts.threads = threads_for(config, comm, simulate);
  model::set_threads(parts.threads);
  const data::Dataset& set = *data.sets.train;
  model::ModelOptions options =
      network_for(config, {set.inputs(), set.target(), set.classes()}, comm.rank());
  options.task.class_weights = class_weights(config, data.class_counts);
  options.rank = comm.rank();
  options.placement = placement;
  parts.measures = {.task = config.task.kind, .outputs = options.outputs};
  parts.replica = model::make_replica(options);
  parts.notes = parts.replica->notes();
  if (options.script != nullptr)
    parts.file_hash = checksum(std::as_bytes(std::span(*options.script)), 0);
  // The other ranks receive rank 0's parameters, so its node alone needs the files.
  if (comm.rank() == 0) {
    if (options.model->whitens) whiten(set, *parts.replica);
    std::ranges::move(load_initial_weights(config, *parts.replica).notes,
                      std::back_inserter(parts.notes));
  }
  if (data.simulation != nullptr) build_workers(*parts.replica, *data.simulation);
  return parts;
}

DeviceChoice choose_device(const config::RunConfig& config, std::span<const RankDevices> ranks,
                           Rank own) {
  const bool automatic = config.device == config::Device::automatic;
  if (config.device == config::Device::cpu) return on_processor({});
  if (const std::string key = config::processor_only(config); automatic && !key.empty())
    return on_processor(fmt::format("device auto: on the processors, because of {}", key));
  const std::string obstacle = first_obstacle(ranks);
  if (obstacle.empty())
    return {.placement = model::on_cuda(device_of(ranks[static_cast<std::size_t>(own)])),
            .note = note_on_devices(ranks)};
  if (automatic) return on_processor(fmt::format("device auto: on the processors; {}", obstacle));
  fail(Kind::usage,
       "device: expected an NVIDIA device for every rank with \"cuda\", found none for {}; or set "
       "device to \"auto\" or \"cpu\"",
       obstacle);
}

DeviceChoice choose_device(const config::RunConfig& config, comm::Communicator& comm) {
  const auto local = comm.ranks_on_this_host();
  model::CudaDevices found;
  if (config.device != config::Device::cpu) found = model::cuda_devices();
  const auto hosts = comm.allgather(comm::host_name());
  const auto firsts = comm.allgather(static_cast<std::uint64_t>(local.front()));
  const auto places = comm.allgather(
      static_cast<std::uint64_t>(std::ranges::find(local, comm.rank()) - local.begin()));
  const auto counts = comm.allgather(static_cast<std::uint64_t>(found.count));
  const auto obstacles = comm.allgather(found.obstacle);
  std::vector<RankDevices> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    ranks.push_back({.host = hosts[r],
                     .first = static_cast<Rank>(firsts[r]),
                     .local = static_cast<int>(places[r]),
                     .count = static_cast<int>(counts[r]),
                     .obstacle = obstacles[r]});
  DeviceChoice choice;
  comm.agree_after([&] { choice = choose_device(config, ranks, comm.rank()); });
  return choice;
}

std::vector<std::string> frozen_patterns(const config::RunConfig& config) {
  std::vector<std::string> patterns = config.model.freeze;
  for (const ParameterGroup& group : config.optimizer.groups)
    if (group.frozen) patterns.insert(patterns.end(), group.names.begin(), group.names.end());
  return patterns;
}

UpdateRules update_rules(const config::RunConfig& config, const Layout& layout) {
  const config::RunConfig::Optimizer& optimizer = config.optimizer;
  require_matches(optimizer.groups, layout);
  UpdateRules rules;
  for (const TensorSlice& slice : layout) {
    const ParameterGroup* const group = group_of(slice.name, optimizer.groups);
    const bool decays = optimizer.decay_norms || slice.shape.size() > 1;
    UpdateRule rule = {.begin = slice.offset,
                       .end = slice.offset + slice.count,
                       .rate_factor = 1,
                       .weight_decay = decays ? optimizer.weight_decay : 0};
    if (group != nullptr) {
      rule.rate_factor = static_cast<float>(group->rate_factor);
      rule.weight_decay = group->weight_decay.value_or(rule.weight_decay);
      if (group->momentum) rule.momentum = static_cast<float>(*group->momentum);
      rule.orthogonal = group->orthogonal;
    }
    const bool goes_on = !rules.empty() && rules.back().rate_factor == rule.rate_factor &&
                         rules.back().weight_decay == rule.weight_decay &&
                         rules.back().momentum == rule.momentum &&
                         rules.back().orthogonal == rule.orthogonal;
    if (goes_on)
      rules.back().end = rule.end;
    else
      rules.push_back(rule);
  }
  return rules;
}

}  // namespace eqt::setup
