// SPDX-License-Identifier: Apache-2.0
#include "app/verbs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "app/check_findings.hpp"
#include "app/run_folder.hpp"
#include "app/trained_run.hpp"
#include "codec/simd.hpp"
#include "comm/host_facts.hpp"
#include "comm/session.hpp"
#include "config/document.hpp"
#include "config/keys_read.hpp"
#include "config/nearest.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "core/units.hpp"
#include "core/version.hpp"
#include "model/export.hpp"
#include "model/replica.hpp"
#include "setup/build_data.hpp"
#include "setup/memory_estimate.hpp"

namespace eqt::app {
namespace {

struct Category {
  std::string name;
  std::vector<config::Choice> names;
};

/// The names are from the config's table.
std::vector<Category> all_categories() {
  return {{"models", config::config_choices("model.name")},
          {"datasets", config::config_choices("data.name")},
          {"tasks", config::config_choices("task.kind")},
          {"partitions", config::config_choices("data.partition.kind")},
          {"compressors", config::config_choices("compressor.name")},
          {"collectives", config::config_choices("synchronization.collective")},
          {"algorithms", config::config_choices("synchronization.algorithm")},
          {"topologies", config::config_choices("synchronization.topology.kind")},
          {"devices", config::config_choices("device")},
          {"optimizers", config::config_choices("optimizer.name")},
          {"schedules", config::config_choices("schedule.kind")}};
}

nlohmann::ordered_json to_json(const Category& category) {
  auto names = nlohmann::ordered_json::array();
  for (const config::Choice& name : category.names) {
    names.push_back({{"name", name.name}, {"about", name.about}});
  }
  return names;
}

void print_names(const Category& category) {
  std::size_t width = 14;
  for (const config::Choice& name : category.names) width = std::max(width, name.name.size());
  for (const config::Choice& name : category.names)
    fmt::print("{:<{}}{}\n", name.name, width + 2, name.about);
}

/// In the run folder, under a name that no run writes.
std::string usual_name(const TrainedRun& run, model::ExportFormat format) {
  switch (format) {
    case model::ExportFormat::torchscript:
      return run.folder + "/model.torchscript.pt";
    case model::ExportFormat::onnx:
      return run.folder + "/model.onnx";
    case model::ExportFormat::safetensors:
      return run.folder + "/model.safetensors";
    case model::ExportFormat::state_dict:
      return run.folder + "/model.state_dict.pt";
  }
  fail(Kind::bug, "an export without a format");
}

}  // namespace

std::string version_text() {
  std::string text =
      fmt::format("equant-train {}\nLibTorch     {}\nMPI          {}\nSIMD         {}\n", version(),
                  model::torch_description(), comm::mpi_description(), codec::simd_target());
  text += "compressors ";
  for (const config::Choice& choice : config::config_choices("compressor.name"))
    text += ' ' + choice.name;
  return text + '\n';
}

std::vector<std::string> list_categories() {
  std::vector<std::string> names;
  for (const Category& category : all_categories()) names.push_back(category.name);
  return names;
}

void run_list(const ListCommand& command) {
  nlohmann::ordered_json everything;
  for (const Category& category : all_categories()) {
    if (!command.category.empty() && category.name != command.category) continue;
    if (command.json) {
      everything[category.name] = to_json(category);
    } else {
      if (command.category.empty())
        fmt::print("{}{}:\n", category.name == "models" ? "" : "\n", category.name);
      print_names(category);
    }
  }
  if (!command.json) return;
  fmt::print("{}\n",
             (command.category.empty() ? everything : everything[command.category]).dump(2));
}

void run_schema() { fmt::print("{}\n", config::config_schema()); }

namespace {

void warn_of_memory(const setup::MemoryEstimate& estimate, int ranks) {
  const std::uint64_t needed = estimate.total() * static_cast<std::uint64_t>(ranks);
  const std::uint64_t found = comm::memory().available_bytes;
  if (found == 0 || needed <= found) return;
  comm::print_warning(fmt::format(
      "expected {} MiB of free memory for {} ranks on this machine, found {} MiB; try a smaller "
      "train.batch_size or model.name, or ranks on several hosts",
      needed / kMib, ranks, found / kMib));
}

/// Before anything that stderr gets, which may be the same file.
void print_config(const CheckCommand& command, const config::RunConfig& config) {
  fmt::print("{}", command.full ? config::resolved_json(config) : config::short_json(config));
  std::fflush(stdout);
}

}  // namespace

void run_check(const CheckCommand& command) {
  const config::RunConfig config = config::parse_config(read_config_file(command.config_path),
                                                        command.config_path, command.sets);
  const int ranks = command.ranks.value_or(2);
  if (command.ranks && config.train.has_batches_by_rank()) setup::first_batches(config, ranks);
  Findings found;
  try {
    const OwnNetworkDeadline deadline(config);
    found = look_at_run(config, ranks);
  } catch (const Error& error) {
    // The config is right, for a machine with the right files.
    if (error.kind() == Kind::data) print_config(command, config);
    throw;
  }
  print_config(command, config);
  for (const std::string& line : found.lines) fmt::print(stderr, "{}\n", line);
  if (const auto idle = config::keys_without_effect(config); !idle.empty())
    fmt::print(stderr, "without effect: {}\n", fmt::join(idle, ", "));
  if (!found.estimate)
    return comm::print_warning(
        "the data of other ranks are not on this machine, so neither they nor the classes of all "
        "ranks, the network and its memory are checked");
  if (config.model.name->users_own)
    fmt::print(stderr, "the network of model.path was run on example inputs\n");
  fmt::print(stderr, "{}\n", setup::memory_text(*found.estimate, ranks));
  for (const std::string& note : compressor_notes(config, found.estimate->layout))
    fmt::print(stderr, "{}\n", note);
  warn_of_memory(*found.estimate, ranks);
}

std::string nearest_or(const std::string& path, std::string otherwise) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMostNames = 10000;
  fs::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();  // "runs/mine/"
  fs::path place, rest;
  std::error_code error;
  for (auto part = whole.begin(); part != whole.end(); ++part) {
    if (fs::exists(place / *part, error)) {
      place /= *part;
      continue;
    }
    for (auto next = std::next(part); next != whole.end(); ++next) rest /= *next;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(place.empty() ? "." : place, error), end;
         !error && entry != end && names.size() < kMostNames; entry.increment(error))
      names.push_back(entry->path().filename().string());
    std::ranges::sort(names);
    const std::string* const near = config::close_name(part->string(), names);
    if (near == nullptr || !fs::exists(place / *near / rest, error)) break;
    const fs::path found = rest.empty() ? place / *near : place / *near / rest;
    return "the nearest is " + found.string();
  }
  return otherwise;
}

void require_folders(const std::vector<std::string>& paths, std::string_view verb) {
  std::error_code error;
  for (const std::string& path : paths)
    if (!std::filesystem::is_directory(path, error))
      fail(Kind::usage,
           "{}: expected a run folder or a folder with some, found no folder at {}; {}", verb, path,
           nearest_or(path, "name what --out was given"));
}

std::string read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Reads one byte more than allowed to detect a file that is too large; a device or a pipe may
  // never end.
  std::string text(config::kMaxDocumentBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    fail(Kind::usage, "--config: expected a readable file, found none at {}; {}", path,
         path.starts_with("/dev/fd/")
             ? "try --config /dev/stdin, for mpirun passes nothing else that is open on to rank 0"
             : nearest_or(path, "try one of " + shipped("configs/")));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

void run_export(const ExportCommand& command) {
  const TrainedRun run = open_run(command.run, command.best);
  const auto* const format = find_named<model::ExportFormat>(command.to);
  EQT_CHECK(format != nullptr, "no format is called {}", command.to);
  const bool has_operations = format->value == model::ExportFormat::torchscript ||
                              format->value == model::ExportFormat::onnx;
  const std::string out = command.out.empty() ? usual_name(run, format->value) : command.out;
  require_free("--out", out, files_of(run));
  model::set_threads(1);
  model::export_network(
      network_options(run),
      {.format = format->value,
       .weights = run.weights,
       .preprocessing = has_operations ? without_framing(run.input) : run.input.text,
       .out = out});
  fmt::print("{}\n", out);
}

}  // namespace eqt::app
