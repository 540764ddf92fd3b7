// SPDX-License-Identifier: Apache-2.0
// The files under configs/.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "config_support.hpp"

using namespace eqt::config;
namespace fs = std::filesystem;

namespace {

const fs::path kConfigs = fs::path(EQT_SOURCE_DIR) / "configs";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("every config file is valid and documented", "[config]") {
  const std::string readme = text_of(kConfigs / "README.md");
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".json") continue;
    if (entry.path().parent_path() == kConfigs / "sweeps")
      continue;  // of configs; see e2e/sweep.sh
    if (entry.path().parent_path() == kConfigs / "clusters")
      continue;  // of boards; see planner/unit/cluster_file_test.cpp
    INFO(entry.path());
    ++files;
    const RunConfig config = parse_config(text_of(entry.path()), entry.path().string(), {});
    CHECK(parse_config(resolved_json(config), "resolved", {}) == config);
    CHECK(readme.find(entry.path().filename().string()) != std::string::npos);
    CHECK(config.name != RunConfig{}.name);
  }
  CHECK(files == 63);
}

TEST_CASE("docs/keys.md has the reference of this version", "[config]") {
  // Nothing may stand between the words and the lists.
  const std::string expected = "a test compares them with this file.\n\n" + config_reference();
  const bool holds =
      text_of(fs::path(EQT_SOURCE_DIR) / "docs" / "keys.md").find(expected) != std::string::npos;
  INFO("replace its lists by the output of: config_unit '[print-reference]'");
  CHECK(holds);
}

TEST_CASE("print the reference", "[.][print-reference]") { std::cout << config_reference(); }
