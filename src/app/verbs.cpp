#include "app/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/compressor_notes.hpp"
#include "app/config/document.hpp"
#include "app/config/run_config.hpp"
#include "app/memory_estimate.hpp"
#include "app/version.hpp"
#include "codec/simd.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "model/replica.hpp"

namespace eqt::app {
namespace {

struct Category {
  std::string name;
  std::vector<Choice> names;
};

/// The config's table knows every name.
std::vector<Category> all_categories() {
  return {{"models", config_choices("model.name")},
          {"datasets", config_choices("data.name")},
          {"partitions", config_choices("data.partition.kind")},
          {"compressors", config_choices("compressor.name")},
          {"collectives", config_choices("synchronization.collective")},
          {"algorithms", config_choices("synchronization.algorithm")},
          {"topologies", config_choices("synchronization.topology.kind")}};
}

nlohmann::ordered_json to_json(const Category& category) {
  auto names = nlohmann::ordered_json::array();
  for (const Choice& name : category.names) {
    names.push_back({{"name", name.name}, {"about", name.about}});
  }
  return names;
}

void print_names(const Category& category) {
  std::size_t width = 14;
  for (const Choice& name : category.names) width = std::max(width, name.name.size());
  for (const Choice& name : category.names)
    fmt::print("{:<{}}{}\n", name.name, width + 2, name.about);
}

}  // namespace

std::string version() { return kVersion; }

std::string version_text() {
  std::string text =
      fmt::format("equant-train {}\nLibTorch     {}\nMPI          {}\nSIMD         {}\n", kVersion,
                  model::torch_description(), comm::mpi_description(), codec::simd_target());
  text += "compressors ";
  for (const Choice& choice : config_choices("compressor.name")) text += ' ' + choice.name;
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

void run_schema() { fmt::print("{}\n", config_schema()); }

void run_check(const CheckCommand& command) {
  const RunConfig config =
      parse_config(read_config_file(command.config_path), command.config_path, command.sets);
  const MemoryEstimate estimate =
      estimate_memory(config, command.ranks, std::max(1, config.threads_per_rank));
  fmt::print("{}", resolved_json(config));
  fmt::print(stderr, "{}\n", memory_text(estimate, command.ranks));
  for (const std::string& note : compressor_notes(config, estimate.layout))
    fmt::print(stderr, "{}\n", note);
}

std::string read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // One byte more than allowed tells that it is too large: a device or a pipe may never end.
  std::string text(kMaxDocumentBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    fail(Kind::usage, "--config: expected a readable file, found none at {}; try one of configs/",
         path);
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace eqt::app
