// SPDX-License-Identifier: Apache-2.0
// The rules of `init`, and the text of its config.

#include "app/starting_config.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt::app;

TEST_CASE("a config with comments is JSON with comments", "[init]") {
  CommentedConfig config;
  config.set("name", "a", "why // not");
  config.set("data.name", "folder");
  config.set("data.path", "/a \"b\"//c", "there");
  config.set("train.epochs", 3, "few");
  CHECK(config.text("Written.") ==
        "// Written.\n"
        "{\n"
        "  \"name\": \"a\",  // why // not\n"
        "  \"data\": {\n"
        "    \"name\": \"folder\",\n"
        "    \"path\": \"/a \\\"b\\\"//c\"  // there\n"
        "  },\n"
        "  \"train\": {\n"
        "    \"epochs\": 3  // few\n"
        "  }\n"
        "}\n");
  const auto json = nlohmann::json::parse(config.text("Written."), nullptr, true, true);
  CHECK(json["data"]["path"] == "/a \"b\"//c");
  CHECK(json["train"]["epochs"] == 3);
}

TEST_CASE("few samples want small batches and more epochs", "[init]") {
  const TrainingRule many = training_rule(StartNetwork::small_pictures, 50'000);
  CHECK(many.batch_size == 64);
  CHECK(many.learning_rate == 0.1);
  CHECK(many.epochs == 10);
  CHECK(!many.adamw);
  const TrainingRule few = training_rule(StartNetwork::small_pictures, 130);
  CHECK(few.batch_size == 16);  // 2 ranks have 4 steps of 16 samples, but not of 32
  CHECK(few.learning_rate == 0.025);
  CHECK(few.epochs == 60);
  CHECK(few.warmup_epochs == 6);
  CHECK(training_rule(StartNetwork::numbers, 20).batch_size == 8);
  CHECK(training_rule(StartNetwork::numbers, 12).batch_size == 4);
  CHECK(training_rule(StartNetwork::numbers, 3).batch_size == 1);
  CHECK(training_rule(StartNetwork::numbers, 3).learning_rate == 1e-3);
  CHECK(training_rule(StartNetwork::pretrained_texts, 500).epochs == 3);
  CHECK(training_rule(StartNetwork::texts, 9'999).epochs == 30);
  CHECK(training_rule(StartNetwork::texts, 200'000).epochs == 3);
}

TEST_CASE("pictures and texts get a size that most of them have", "[init]") {
  CHECK(picture_side(2000) == 160);
  CHECK(picture_side(100) == 96);
  CHECK(picture_side(28) == 28);
  CHECK(picture_side(5) == 16);
  CHECK(text_length({3}) == 16);
  CHECK(text_length(std::vector<std::size_t>(10, 30)) == 64);  // 42 tokens
  std::vector<std::size_t> lengths(20, 10);
  lengths.back() = 1000;  // one of 20 is cut
  CHECK(text_length(lengths) == 16);
  CHECK(text_length({5000}) == 128);
}

TEST_CASE("a run is called like its data", "[init]") {
  const eqt::test::TemporaryFolder folder;
  const std::string path = folder.path();
  CHECK(run_name(path) == path.substr(path.rfind('/') + 1));
  CHECK(run_name(path + "/") == run_name(path));
  CHECK(run_name(path + "/a b.csv") == "a_b");
  CHECK(run_name(path + "/.csv") == "run.csv");
}
