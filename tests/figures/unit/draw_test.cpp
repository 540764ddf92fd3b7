// SPDX-License-Identifier: Apache-2.0
#include "figures/draw.hpp"

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::figures;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a gnuplot that hangs costs a report its plots, and no more than one deadline",
          "[figures]") {
  const test::TemporaryFolder folder;
  const std::string program = folder.path() + "/gnuplot";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 60\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string before = getenv("PATH");
  setenv("PATH", (folder.path() + ":" + before).c_str(), 1);
  std::vector<Drawing> drawings(20);
  for (std::size_t i = 0; i < drawings.size(); ++i) drawings[i].name = "plot" + std::to_string(i);
  const auto begin = std::chrono::steady_clock::now();
  const Drawn drawn = draw_all(drawings, folder.path(), std::chrono::seconds(1));
  const auto taken = std::chrono::steady_clock::now() - begin;
  setenv("PATH", before.c_str(), 1);
  CHECK(drawn.pictures.empty());
  REQUIRE(drawn.failed.size() >= 2);
  CHECK(has(drawn.failed.front(), "within 1 s, found it still at work"));
  CHECK(has(drawn.failed.back(), "other plots were not tried: gnuplot hangs"));
  CHECK(taken < std::chrono::seconds(10));  // 20 plots of one second by two are 10
}
