// SPDX-License-Identifier: Apache-2.0
// What the verb evaluate refuses before it reads a network.

#include "app/evaluate_command.hpp"

#include <fstream>

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
  test::says(refused(Kind::data, {.target = absent, .config_path = config, .sets = {}, .out = {}}),
             "absent");
  test::says(
      refused(Kind::data, {.target = folder.path(), .config_path = {}, .sets = {}, .out = {}}),
      "config.json");
}
