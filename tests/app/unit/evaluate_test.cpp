// SPDX-License-Identifier: Apache-2.0
// What the verb evaluate refuses before it reads a network.

#include <filesystem>
#include <fstream>

#include "app/trained_run.hpp"
#include "app/verbs.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;

TEST_CASE("weights need a config and a file, a run needs its config", "[evaluate]") {
  const test::TemporaryFolder folder;
  const std::string absent = folder.path() + "/absent", config = folder.path() + "/a.json";
  std::ofstream(config) << R"({"model": {"name": "resnet20"}, "data": {"name": "synthetic"}})";
  const auto refused = [](Kind kind, const app::EvaluateCommand& command) {
    return test::refusal(kind, [&] { app::run_evaluate(command); });
  };
  test::says(refused(Kind::usage, {.target = absent, .config_path = {}, .sets = {}, .out = {}}),
             "expected --config");
  std::filesystem::create_directories(folder.path() + "/runs/quickstart");
  test::says(
      refused(
          Kind::usage,
          {.target = folder.path() + "/runs/qickstart", .config_path = {}, .sets = {}, .out = {}}),
      "the nearest is " + folder.path() + "/runs/quickstart");
  test::says(refused(Kind::data, {.target = absent, .config_path = config, .sets = {}, .out = {}}),
             "absent");
  test::says(
      refused(Kind::data, {.target = folder.path(), .config_path = {}, .sets = {}, .out = {}}),
      "config.json");
}

TEST_CASE("a trained network needs no plugin, graph, weights or decisions that its training had",
          "[evaluate]") {
  const std::string text = R"({
    "model": {"name": "resnet20", "weights": "/gone.pt"}, "data": {"name": "synthetic"},
    "train": {"batch_sizes": "auto", "replay": "/gone.jsonl", "accumulate": 0},
    "compressor": {"name": "of-a-plugin", "strange": 1},
    "synchronization": {"algorithm": "choco-sgd", "topology": {"file": "/gone.json"}}})";
  const config::RunConfig config =
      app::parse_trained_config(text, "the config", {"data.limit_test=8"});
  CHECK(config.model.name->name == "resnet20");
  CHECK(config.data.limit_test == 8);
  CHECK(config.compressor.name->name == "none");
  // What says what is tested is read as strictly as ever.
  for (const char* const wrong : {R"({"dta": {}})", R"({"data": {"nme": "synthetic"}})"})
    CHECK_FALSE(test::refusal(Kind::usage, [&] {
                  app::parse_trained_config(wrong, "the config", {});
                }).empty());
}

TEST_CASE("what is not there has the nearest name, of each part of a path", "[evaluate]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  std::filesystem::create_directories(path + "/runs/birds/seed1");
  std::ofstream(path + "/runs/notes.txt") << "mine";
  CHECK(app::nearest_or(path + "/runs/birs", "x") == "the nearest is " + path + "/runs/birds");
  CHECK(app::nearest_or(path + "/runs/birs/", "x") == "the nearest is " + path + "/runs/birds");
  CHECK(app::nearest_or(path + "/rns/birds/seed1", "x") ==
        "the nearest is " + path + "/runs/birds/seed1");
  CHECK(app::nearest_or(path + "/rns/cats/seed1", "x") == "x");
  CHECK(app::nearest_or(path + "/runs/elephants", "x") == "x");
  CHECK(app::nearest_or("", "x") == "x");
}
