#include "app/verbs.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/run_config.hpp"
#include "app/version.hpp"
#include "codec/simd.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "data/dataset.hpp"
#include "model/replica.hpp"

namespace eqt::app {
namespace {

struct Name {
  std::string name, about;
};

struct Category {
  std::string name;
  std::vector<Name> names;
};

std::vector<Category> all_categories() {
  std::vector<Category> categories = {{"models", {}}, {"datasets", {}}};
  for (const auto& model : model::list_models()) {
    categories[0].names.push_back({model.name, model.about});
  }
  for (const auto& set : data::list_datasets())
    categories[1].names.push_back({set.name, set.about});
  categories.push_back({"compressors",
                        {{"none", "float32"},
                         {"fp16", "half precision, rounded to nearest"},
                         {"bf16", "bfloat16, rounded to nearest"},
                         {"qsgd", "QSGD: uniform levels, L2 norm per bucket, unbiased"},
                         {"qsgd-v", "QSGD with the maximum norm per bucket, unbiased"},
                         {"elastiquant", "ElastiQuant: levels denser near zero, unbiased"},
                         {"e-elastiquant", "ElastiQuant, entropy coded, unbiased"},
                         {"terngrad", "TernGrad: -1, 0, 1 with a scale shared by all ranks"},
                         {"topk", "the k largest values per tensor, with error feedback"},
                         {"dgc", "Deep Gradient Compression: top-k with momentum correction"}}});
  categories.push_back(
      {"collectives",
       {{"auto", "by message size and rank count"},
        {"dense", "MPI_Allreduce of float32"},
        {"allgather", "every message to every rank"},
        {"scatter-reduce", "each run to its owner, the mean encoded again to all"}}});
  categories.push_back({"algorithms",
                        {{"allreduce", "the mean gradient of all ranks in every step"},
                         {"none", "every rank trains alone"}}});
  categories.push_back({"topologies", {}});
  return categories;
}

nlohmann::ordered_json to_json(const Category& category) {
  auto names = nlohmann::ordered_json::array();
  for (const Name& name : category.names) {
    names.push_back({{"name", name.name}, {"about", name.about}});
  }
  return names;
}

void print_names(const Category& category) {
  for (const Name& name : category.names) fmt::print("{:<16}{}\n", name.name, name.about);
  if (category.names.empty()) fmt::print("none in this version\n");
}

}  // namespace

std::string version() { return kVersion; }

std::string version_text() {
  std::string text =
      fmt::format("equant-train {}\nLibTorch     {}\nMPI          {}\nSIMD         {}\n", kVersion,
                  model::torch_description(), comm::mpi_description(), codec::simd_target());
  text += "compressors ";
  for (const Category& category : all_categories()) {
    if (category.name != "compressors") continue;
    for (const Name& name : category.names) text += ' ' + name.name;
  }
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
  fmt::print("{}\n", resolved_json(config));
}

std::string read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    fail(Kind::usage, "--config: expected a readable file, found none at {}; try one of configs/",
         path);
  }
  return text.str();
}

}  // namespace eqt::app
