// SPDX-License-Identifier: Apache-2.0
// The verb check: what it prints and warns of.

#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/check_findings.hpp"
#include "app/verbs.hpp"
#include "config/keys_read.hpp"
#include "config/run_config.hpp"
#include "support/captured.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using Catch::Matchers::ContainsSubstring;
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

/// What check prints, and why it refuses the files, if it does.
struct Checked {
  test::Printed printed;
  std::string refused;
};

Checked checked_files(const app::CheckCommand& command) {
  Checked found;
  found.printed = test::printed_by([&] {
    try {
      app::run_check(command);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::data);
      found.refused = error.what();
    }
  });
  return found;
}

/// Whether the config of the command is right, with or without the files that it names: then check
/// prints one that means the same.
void check_config(const app::CheckCommand& command) {
  const auto config =
      config::parse_config(app::read_config_file(command.config_path), "file", command.sets);
  const Checked found = checked_files(command);
  INFO(found.refused);
  CHECK(config::parse_config(found.printed.out, "printed", {}) == config);
}

/// A folder with a table of classes for training and one for testing.
void write_table(const std::string& folder, const std::string& train, const std::string& test) {
  fs::create_directories(folder);
  std::ofstream(folder + "/train.csv") << train;
  std::ofstream(folder + "/test.csv") << test;
}

}  // namespace

TEST_CASE("check tells a network's size", "[check]") {
  // He et al., section 4.2, with projections: 19 convolutions, of which 3 x 6 have equal products.
  CHECK_THAT(checked({}).err,
             ContainsSubstring("network: 272 thousand parameters, 40.8 million multiply-adds"));
  CHECK_THAT(checked({R"(model.freeze=["conv1.*","bn1.*","layer*"])"}).err,
             ContainsSubstring("network: 272 thousand parameters, 650 of them trained, 40.8"));
  // An emulated board has the network of ImageNet's pictures: torchvision's documentation.
  CHECK_THAT(
      checked({"model.name=resnet18", "train.emulate_compute=1", "train.epochs=0", "train.steps=1"})
          .err,
      ContainsSubstring("network: 11.7 million parameters, 1.81 billion multiply-adds"));
}

TEST_CASE("check accepts every config file", "[check]") {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(EQT_SOURCE_DIR) / "configs")) {
    // Those of sweeps name other configs, see e2e/sweep.sh; those of clusters are none.
    const auto folder = entry.path().parent_path().filename();
    if (entry.path().extension() != ".json" || folder == "sweeps" || folder == "clusters") continue;
    INFO(entry.path());
    ++files;
    check_config({entry.path().string(), {}});
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
      check_config({config, sets, row.at("ranks").at(0)});
      ++rows;
    }
  }
  CHECK(rows == 4 + 4 + 3 + 4);
}

TEST_CASE("check tells a compressor's variance bound", "[check]") {
  // sqrt(512) / 7 - 1 for QSGD's default buckets, 4 bits.
  const test::Printed qsgd = checked({"compressor.name=qsgd"});
  CHECK(nlohmann::json::parse(qsgd.out).at("compressor").at("bucket_size") == 512);
  CHECK_THAT(qsgd.err,
             ContainsSubstring("\ncompressor: qsgd, unbiased; error feedback: none; variance ") &&
                 ContainsSubstring(": at most 2.23\n"));
  CHECK_THAT(qsgd.err, ContainsSubstring("warning: compressor qsgd: ") &&
                           ContainsSubstring("at most 1 without error feedback, found 2.23: "));
  CHECK_THAT(checked({"compressor.name=elastiquant"}).err,
             ContainsSubstring("\ncompressor: elastiquant, unbiased; error feedback: ef14; ") &&
                 ContainsSubstring(": at most 0.234\n"));
  CHECK_THAT(checked({"compressor.name=int8"}).err,
             ContainsSubstring("\ncompressor: int8, biased; error feedback: ef14; "));
  CHECK_THAT(checked({"compressor.name=topk", "synchronization.error_feedback=ef21"}).err,
             ContainsSubstring("\ncompressor: topk, biased; error feedback: ef21; ") &&
                 !ContainsSubstring("warning:"));
  CHECK_THAT(checked({"compressor.name=e-elastiquant", "compressor.rate=2"}).err,
             ContainsSubstring("error feedback: ef14 with ranks' momentum; "));
  const Sets sgdm = {"compressor.name=topk", "synchronization.error_feedback=ef21",
                     "synchronization.ef21_momentum=0.1"};
  CHECK_THAT(checked(sgdm).err, ContainsSubstring("warning: synchronization.ef21_momentum 0.1: ") &&
                                    ContainsSubstring("optimizer.momentum 0, ") &&
                                    ContainsSubstring("found 0.9"));
  Sets alone = sgdm;
  alone.emplace_back("optimizer.momentum=0");
  CHECK_THAT(checked(alone).err, !ContainsSubstring("warning:"));
  CHECK_THAT(
      checked({"compressor.name=signsgd", "optimizer.learning_rate=0.1"}).err,
      ContainsSubstring("warning: compressor signsgd: ") && ContainsSubstring("learning_rate"));
}

TEST_CASE("check offers error feedback where noise would be felt and it is allowed", "[check]") {
  const auto offered =
      ContainsSubstring("with synchronization.error_feedback \"ef14\" the same bytes");
  for (const std::string name : {"compressor.name=e-elastiquant", "compressor.name=elastiquant"}) {
    CHECK_THAT(checked({name, "synchronization.error_feedback=none"}).err, offered);
    CHECK_THAT(checked({name, "optimizer.name=adamw"}).err, offered);
  }
  for (const Sets& sets :
       {Sets{"compressor.name=e-elastiquant"}, Sets{"compressor.name=elastiquant"},
        Sets{"compressor.name=elastiquant", "compressor.bits=8"}, Sets{"compressor.name=bf16"},
        Sets{"compressor.name=qsgd"}, Sets{"compressor.name=auto"}, Sets{"compressor.name=topk"},
        Sets{"compressor.name=randomk", "compressor.unbiased=true", "compressor.density=0.6"}})
    CHECK_THAT(checked(sets).err, ContainsSubstring("compressor: ") && !offered);
}

TEST_CASE("check tells that Muon wants more bits", "[check]") {
  const auto told = ContainsSubstring("compressor: optimizer muon makes noise as large as ");
  const auto muon = [](const std::string& name, const std::string& rate = "null") {
    return checked({"optimizer.name=muon", "compressor.name=" + name, "compressor.rate=" + rate})
        .err;
  };
  for (const std::string name : {"e-elastiquant", "topk", "qsgd"})
    CHECK_THAT(muon(name), told && !ContainsSubstring("the same bytes"));
  CHECK_THAT(muon("e-elastiquant", "0.25"), told);
  CHECK_THAT(muon("e-elastiquant", "3.5"), ContainsSubstring("compressor: ") && !told);
  for (const std::string name : {"bf16", "auto"}) CHECK_THAT(muon(name), !told);
  CHECK_THAT(checked({"compressor.name=e-elastiquant"}).err, !told);
}

TEST_CASE("check tells of averages that come later than theory has them for nothing", "[check]") {
  const auto late = ContainsSubstring("synchronization.delay: averages come ");
  const auto local = [](const std::string& delay, const std::string& steps, int ranks) {
    return checked({"synchronization.algorithm=local-sgd", "synchronization.local_steps=8",
                    "synchronization.delay=" + delay, "train.epochs=0", "train.steps=" + steps},
                   ranks)
        .err;
  };
  // 65,536 = 16^4 steps of 16 ranks: 16 / 8. 10,000 = 10^4: 10 / 8.
  CHECK_THAT(local("2", "65536", 16), !late);
  CHECK_THAT(local("3", "65536", 16),
             ContainsSubstring(
                 "come 3 steps late; with 65536 steps of 16 ranks theory has 2 for nothing"));
  CHECK_THAT(local("1", "10000", 16), !late);
  CHECK_THAT(local("auto", "10000", 16), ContainsSubstring("come 4 steps late") &&
                                             ContainsSubstring("theory has 1.2 for nothing"));
  CHECK_THAT(local("8", "16", 1), !late);  // nothing is averaged
  CHECK_THAT(local("0", "16", 4), !late);
  CHECK_THAT(checked({}).err, !late);
}

TEST_CASE("check warns of too little memory", "[check]") {
  CHECK_THAT(checked({}, 65536).err, ContainsSubstring("MiB of free memory for 65536 ranks"));
  CHECK_THAT(checked({}).err, !ContainsSubstring("warning:"));
}

TEST_CASE("check refuses the files that a run here would refuse", "[check]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/tiny.json";
  std::ofstream(path) << R"({"model": {"name": "resnet20"}, "data": {"name": "synthetic"}})";
  const auto refused = [&](const Sets& sets) {
    check_config({path, sets});
    return checked_files({path, sets}).refused;
  };
  CHECK_THAT(refused({"data.name=cifar10", "data.path=/nowhere/cifar"}),
             ContainsSubstring("/nowhere/cifar"));
  CHECK_THAT(refused({"model.weights=/nowhere/absent.pt"}), ContainsSubstring("absent.pt"));
  std::ofstream(folder.path() + "/text.pt") << "no weights";
  CHECK_THAT(refused({"model.weights=" + folder.path() + "/text.pt"}),
             ContainsSubstring("text.pt"));
  write_table(folder.path() + "/x", "a,label\n1,0\n2,1\n", "a,label\n1,2\n");
  CHECK_THAT(refused({"data.name=arrays", "data.path=" + folder.path() + "/x"}),
             ContainsSubstring("test.csv, line 2"));
}

TEST_CASE("check prints a short config, or every key", "[check]") {
  const Sets sets = {"compressor.name=qsgd", "compressor.bucket_size=8192", "seed=7"};
  const auto brief = nlohmann::json::parse(checked(sets).out);
  // The default of bucket_size is 8192, QSGD's own is 512.
  CHECK(brief.at("compressor") == nlohmann::json{{"name", "qsgd"}, {"bucket_size", 8192}});
  CHECK(brief.at("seed") == 7);
  CHECK(brief.at("train").at("batch_size") == 64);  // what a run is about is always there
  CHECK_FALSE(brief.contains("checkpoint"));
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/brief.json";
  std::ofstream(path) << checked(sets).out;
  app::CheckCommand command{path, {}};
  command.full = true;
  const auto full = nlohmann::json::parse(checked_files(command).printed.out);
  CHECK(full.at("compressor").at("bucket_size") == 8192);
  CHECK(full.at("checkpoint").at("keep") == 2);
}

TEST_CASE("check says what the data is, of each rank its own", "[check]") {
  CHECK_THAT(checked({"data.limit_train=100", "data.limit_test=50"}).err,
             ContainsSubstring("data: synthetic, 100 training and 50 test samples, inputs "));
  const test::TemporaryFolder folder;
  write_table(folder.path() + "/0", ",a,label\n0,1.5,0\n1,2.5,1\n2,3.5,1\n", ",a,label\n0,1,1\n");
  write_table(folder.path() + "/1", "label,a\n1,1\n2,2\n", "label,a\n1,2\n");
  const auto lines = [&](const std::string& data) {
    const auto config = config::parse_config(
        R"({"model": {"name": "resnet20"}, "train": {"batch_size": 1}, "data": {"name": "arrays", )" +
            data + "}}",
        "test", {});
    std::string all;
    for (const std::string& line : app::data_findings(config, {}, 2)) all += line + '\n';
    return all;
  };
  const std::string one = lines("\"path\": \"" + folder.path() + "/0\"");
  CHECK_THAT(one, ContainsSubstring(
                      "data: arrays, 3 training and 1 test samples, inputs x (float32, [1])") &&
                      ContainsSubstring("\nclasses: 2 (0 1, 1 2)\nnote: ") &&
                      ContainsSubstring("column 1 is left out"));
  const std::string own =
      lines("\"path\": \"" + folder.path() + "/{rank}\", \"partition\": {\"kind\": \"local\"}");
  CHECK_THAT(
      own, ContainsSubstring("data of rank 0: 3 training and 1 test samples (0 1, 1 2)") &&
               ContainsSubstring("data of rank 1: 2 training and 1 test samples (0 0, 1 1, 2 1)") &&
               ContainsSubstring("the target is column 1 \"label\", by its name") &&
               ContainsSubstring("classes: 3 of all ranks (0 1, 1 3, 2 1)"));
}

TEST_CASE("check names keys without effect", "[check]") {
  CHECK_THAT(checked({}).err, !ContainsSubstring("without effect"));
  CHECK_THAT(
      checked({"compressor.name=qsgd", "compressor.density=0.3", "schedule.factor=0.5",
               "checkpoint.keep=5", "synchronization.topology.kind=torus"})
          .err,
      ContainsSubstring("without effect: checkpoint.keep, compressor.density, schedule.factor, "
                        "synchronization.topology.kind\n"));
  // These belong to DGC's memory and to the fit of levels, which are not the codec's own.
  const std::vector<std::string> beside = {"compressor.warmup_epochs=0", "compressor.clip_norm=1",
                                           "compressor.momentum_masking=false",
                                           "compressor.adapt_every=50"};
  const auto said_of = [&](const std::string& compressor) {
    std::vector<std::string> sets = beside;
    sets.push_back("compressor.name=" + compressor);
    return checked(sets).err;
  };
  CHECK_THAT(said_of("qsgd"), ContainsSubstring("without effect: compressor.adapt_every, "
                                                "compressor.clip_norm, "
                                                "compressor.momentum_masking, "
                                                "compressor.warmup_epochs\n"));
  CHECK_THAT(said_of("dgc"), ContainsSubstring("without effect: compressor.adapt_every\n"));
  CHECK_THAT(said_of("alq"), ContainsSubstring("without effect: compressor.clip_norm, "
                                               "compressor.momentum_masking, "
                                               "compressor.warmup_epochs\n"));
}

TEST_CASE("check names keys that another key would give an effect", "[check]") {
  const auto idle = [](Sets sets, const std::string& set) {
    sets.push_back(set);
    return config::keys_without_effect(config::parse_config("{}", "test", sets));
  };
  struct Case {
    std::string set;
    Sets without, with;
  };
  const std::string algorithm = "synchronization.algorithm=";
  const Sets laq = {algorithm + "laq", "optimizer.momentum=0"};
  const Sets grades = {"compressor.name=elastiquant", "compressor.bits=auto"};
  const Sets rates = {"compressor.name=auto", "synchronization.error_feedback=ef14"};
  const Sets ring = {algorithm + "d-psgd"};
  const Sets late = {algorithm + "local-sgd", "synchronization.local_steps=4",
                     "synchronization.delay=auto"};
  for (const Case& at : {
           Case{"train.batch_least=4", {}, {"train.batch_sizes=auto"}},
           Case{"train.balance_every=7", {}, {"train.batch_sizes=auto"}},
           Case{"train.rollback_factor=0.3", {}, {"train.on_divergence=rollback"}},
           Case{"train.tune_epochs=3", {}, {"train.tune=auto", "train.tune_target=0.5"}},
           Case{"train.tune_rates=3", {}, {"train.tune=auto", "train.tune_target=0.5"}},
           Case{"model.new_head=refuse", {}, {"model.weights=a.pt"}},
           Case{"model.new_head=refuse", {"model.name=bert"}, {"model.name=bert", "model.path=a"}},
           Case{"compressor.link=5", {}, grades},
           Case{"compressor.link=5", {"compressor.name=elastiquant"}, {"compressor.name=auto"}},
           Case{"compressor.observe_every=9", {"compressor.name=qsgd"}, grades},
           Case{"compressor.decide_every=9", {"compressor.name=qsgd"}, rates},
           Case{"compressor.noise_share=0.05", rates, grades},
           Case{"compressor.noise_cap=0.9", rates, grades},
           Case{"compressor.error_share=0.5", grades, rates},
           Case{"synchronization.bucket_mib=2", laq, {}},
           Case{"synchronization.bucket_mib=2", {algorithm + "none"}, ring},
           Case{"synchronization.overlap=false", laq, {}},
           Case{"synchronization.overlap=false", {algorithm + "local-sgd"}, late},
           Case{"synchronization.overlap=false",
                ring,
                {algorithm + "d-psgd", "synchronization.order=combine-then-adapt"}},
           Case{"synchronization.topology.rows=2",
                ring,
                {algorithm + "d-psgd", "synchronization.topology.kind=mesh"}},
           Case{"synchronization.topology.rows=2",
                {algorithm + "d-psgd", "synchronization.topology.kind=star"},
                {algorithm + "d-psgd", "synchronization.topology.kind=torus"}},
       }) {
    INFO(at.set << " " << fmt::format("{}", fmt::join(at.without, " ")));
    CHECK(idle(at.without, at.set) == Sets{at.set.substr(0, at.set.find('='))});
    CHECK(idle(at.with, at.set).empty());
  }
}
