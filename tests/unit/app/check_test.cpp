// SPDX-License-Identifier: Apache-2.0
// The verb check: what it prints and warns of.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/verbs.hpp"
#include "config/run_config.hpp"
#include "support/captured.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

using Sets = std::vector<std::string>;

/// A small network and a data set without files, with these keys.
test::Printed checked(const Sets& sets, int ranks = 2) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/tiny.json";
  std::ofstream(path) << R"({"model": {"name": "resnet20"}, "data": {"name": "synthetic"},
                             "optimizer": {"learning_rate": 0.05}})";
  return test::printed_by([&] { app::run_check({path, sets, ranks}); });
}

}  // namespace

TEST_CASE("check accepts every config file", "[check]") {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(EQT_SOURCE_DIR) / "configs")) {
    // Those of sweeps name other configs, see e2e/sweep.sh; those of clusters are none.
    const auto folder = entry.path().parent_path().filename();
    if (entry.path().extension() != ".json" || folder == "sweeps" || folder == "clusters") continue;
    INFO(entry.path());
    ++files;
    CHECK_NOTHROW(test::printed_by([&] { app::run_check({entry.path().string(), {}}); }));
  }
  CHECK(files >= 36);
}

TEST_CASE("check accepts every row of the sweeps", "[check]") {
  const fs::path folder = fs::path(EQT_SOURCE_DIR) / "configs/sweeps";
  int rows = 0;
  for (const std::string sweep : {"ag_news", "imagenette", "table2_own", "table5"}) {
    const auto json = nlohmann::json::parse(std::ifstream(folder / (sweep + ".json")));
    const auto all = json.value("set", nlohmann::json::object());
    for (const auto& row : json.at("configs")) {
      Sets sets;
      for (const auto& [key, value] : row.at("set").items())
        sets.push_back(key + "=" + value.dump());
      for (const auto& [key, values] : all.items())
        sets.push_back(key + "=" + values.back().dump());
      INFO(sweep << " " << row.at("name"));
      const std::string config = folder / row.at("config").get<std::string>();
      CHECK_NOTHROW(test::printed_by([&] {
        app::run_check({config, sets, row.at("ranks").at(0)});
      }));
      ++rows;
    }
  }
  CHECK(rows == 4 + 4 + 3 + 4);
}

TEST_CASE("check tells a compressor's variance bound", "[check]") {
  // sqrt(512) / 7 - 1 for QSGD's default buckets, 4 bits.
  const test::Printed qsgd = checked({"compressor.name=qsgd"});
  CHECK(nlohmann::json::parse(qsgd.out).at("compressor").at("bucket_size") == 512);
  CHECK_THAT(qsgd.err, Contains("\ncompressor: qsgd, unbiased; error feedback: none; variance ") &&
                           Contains(": at most 2.23\n"));
  CHECK_THAT(qsgd.err, Contains("warning: compressor qsgd: ") &&
                           Contains("at most 1 without error feedback, found 2.23: "));
  CHECK_THAT(checked({"compressor.name=elastiquant"}).err,
             Contains("\ncompressor: elastiquant, ") && Contains(": at most 0.234\n"));
  CHECK_THAT(checked({"compressor.name=int8"}).err,
             Contains("\ncompressor: int8, biased; error feedback: ef14; "));
  CHECK_THAT(
      checked({"compressor.name=topk", "synchronization.error_feedback=ef21"}).err,
      Contains("\ncompressor: topk, biased; error feedback: ef21; ") && !Contains("warning:"));
  const Sets sgdm = {"compressor.name=topk", "synchronization.error_feedback=ef21",
                     "synchronization.ef21_momentum=0.1"};
  CHECK_THAT(checked(sgdm).err, Contains("warning: synchronization.ef21_momentum 0.1: ") &&
                                    Contains("optimizer.momentum 0, ") && Contains("found 0.9"));
  Sets alone = sgdm;
  alone.emplace_back("optimizer.momentum=0");
  CHECK_THAT(checked(alone).err, !Contains("warning:"));
  CHECK_THAT(checked({"compressor.name=signsgd", "optimizer.learning_rate=0.1"}).err,
             Contains("warning: compressor signsgd: ") && Contains("learning_rate"));
}

TEST_CASE("check offers error feedback where noise would be felt and it is allowed", "[check]") {
  const auto offered = Contains("with synchronization.error_feedback \"ef14\" the same bytes");
  CHECK_THAT(checked({"compressor.name=e-elastiquant"}).err, offered);
  CHECK_THAT(checked({"compressor.name=elastiquant"}).err, offered);
  for (const Sets& sets :
       {Sets{"compressor.name=e-elastiquant", "synchronization.error_feedback=ef14"},
        Sets{"compressor.name=elastiquant", "compressor.bits=8"}, Sets{"compressor.name=bf16"},
        Sets{"compressor.name=qsgd"}, Sets{"compressor.name=auto"}, Sets{"compressor.name=topk"},
        Sets{"compressor.name=randomk", "compressor.unbiased=true", "compressor.density=0.6"}})
    CHECK_THAT(checked(sets).err, Contains("compressor: ") && !offered);
}

TEST_CASE("check warns of what lies on another machine, and of too little memory", "[check]") {
  const test::Printed found = checked(
      {"data.name=cifar10", "data.path=/nowhere/cifar", "model.weights=/nowhere/absent.pt"}, 65536);
  CHECK_THAT(found.err, Contains("warning: ") && Contains("/nowhere/cifar") &&
                            Contains("absent.pt") &&
                            Contains("MiB of free memory for 65536 ranks"));
  CHECK_THAT(checked({}).err, !Contains("warning:"));
}
