// SPDX-License-Identifier: Apache-2.0
#include "app/run_folder.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::app;
namespace fs = std::filesystem;

namespace {

/// The kind of the error; empty if there was none.
std::optional<Kind> refusal_of(const std::string& path, Results results) {
  try {
    RunFolder(path, results).begin();
  } catch (const Error& error) {
    return error.kind();
  }
  return {};
}

}  // namespace

TEST_CASE("a folder has one owner, also while others release it", "[run_folder]") {
  const test::TemporaryFolder temporary;
  std::atomic<int> owners{0}, most{0}, turns{0};
  const auto ask = [&] {
    for (int i = 0; i < 20000; ++i) {
      try {
        const FolderLock lock(temporary.path());
        const int now = ++owners;
        int before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        ++turns;
        --owners;
      } catch (const Error& error) {
        if (error.kind() != Kind::usage) most = 1000;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(ask);
  for (std::thread& thread : threads) thread.join();
  CHECK(most == 1);
  CHECK(turns > 1);
}

TEST_CASE("the lock of a folder that was removed and made again belongs to the new owner",
          "[run_folder]") {
  const test::TemporaryFolder temporary;
  const std::string path = temporary.path() + "/run";
  auto first = std::make_unique<RunFolder>(path, Results::refuse);
  fs::rename(path, temporary.path() + "/moved");
  const RunFolder second(path, Results::refuse);
  first.reset();
  CHECK(fs::exists(path + "/.lock"));
  CHECK(refusal_of(path, Results::refuse) == Kind::usage);
}

TEST_CASE("old results are kept until the run begins", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path();
  const std::vector<std::string> results = {"metrics.jsonl", "summary.json", "model.pt",
                                            "events.out.tfevents.1.host"};
  for (const std::string& name : results) std::ofstream(path / name) << "a result";
  std::ofstream(path / "notes.txt") << "mine";
  CHECK(refusal_of(path, Results::refuse) == Kind::usage);
  RunFolder folder(path, Results::replace);
  for (const std::string& name : results) CHECK(fs::exists(path / name));
  CHECK(folder.holds_finished_run());
  folder.begin();
  for (const std::string& name : results) CHECK_FALSE(fs::exists(path / name));
  CHECK(fs::exists(path / "notes.txt"));
}

TEST_CASE("a run that is resumed without a checkpoint begins without old results", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path();
  const std::vector<std::string> results = {"metrics.jsonl", "model_best.pt", "encoder.json",
                                            "events.out.tfevents.1.host"};
  for (const std::string& name :
       {results[0], results[1], results[2], results[3], std::string("tuned.json")})
    std::ofstream(path / name) << "a result";
  std::ofstream(path / "model.onnx") << "made of a result";
  RunFolder(path, Results::keep).begin(true);
  for (const std::string& name : results) CHECK(fs::exists(path / name));
  CHECK_FALSE(fs::exists(path / "model.onnx"));
  RunFolder(path, Results::keep).begin(false);
  for (const std::string& name : results) CHECK_FALSE(fs::exists(path / name));
  CHECK(fs::exists(path / "tuned.json"));
}

TEST_CASE("links and folders that have a result's name", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path(), result = path / "summary.json";
  for (const char* target : {"summary.json", "nowhere", "notes.txt"}) {  // a loop, nothing, a file
    std::ofstream(path / "notes.txt") << "mine";
    fs::create_symlink(target, result);
    CHECK(refusal_of(path, Results::refuse) == Kind::usage);
    CHECK_FALSE(refusal_of(path, Results::replace).has_value());
    CHECK_FALSE(fs::is_symlink(result));
    CHECK(fs::exists(path / "notes.txt"));
  }
  fs::create_directory(result);
  for (const Results results : {Results::refuse, Results::replace, Results::keep})
    CHECK(refusal_of(path, results) == Kind::output);
  CHECK(fs::is_directory(result));
  fs::create_directory(path / "other");
  fs::create_symlink(path / "notes.txt", path / "other" / ".lock");
  CHECK(refusal_of(path / "other", Results::refuse) == Kind::output);
}

TEST_CASE("a verb writes neither over an input nor over a record", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path run = fs::path(temporary.path()) / "run", input = run.parent_path() / "in.png";
  const auto make = [](const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "{}";
  };
  make(run / "summary.json");
  make(run / "checkpoints" / "step-1" / "manifest.json");
  make(run / "evaluation" / "evaluation.json");
  make(input);
  fs::create_symlink(run, run.parent_path() / "link");
  fs::create_hard_link(input, run.parent_path() / "other.png");
  const auto kind_of = [&](const fs::path& path) -> std::optional<Kind> {
    try {
      require_free("--out", path.string(), {"nowhere", input.string()});
    } catch (const Error& error) {
      return error.kind();
    }
    return {};
  };
  for (const fs::path& path :
       {input, run / ".." / "in.png", run.parent_path() / "other.png", run / "summary.json",
        run / "model.pt", run / "config.json", run / "events.out.tfevents.1", run / ".lock",
        run.parent_path() / "link" / "metrics.jsonl", run / "evaluation" / ".." / "network.pt",
        run / "checkpoints" / "step-1" / "manifest.json", run / "gradients" / "step1.npy"}) {
    CAPTURE(path.string());
    fs::create_directories(run / "gradients");
    CHECK(kind_of(path) == Kind::usage);
  }
  CHECK(kind_of(run.parent_path() / "link") == Kind::output);
  for (const fs::path& path : {run / "model.safetensors", run / "evaluation" / "answers.jsonl",
                               run.parent_path() / "model.pt", fs::path("model.pt")})
    CHECK_FALSE(kind_of(path).has_value());
}

TEST_CASE("what killed runs have left is removed, and no other file", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path();
  for (const char* name : {"model.pt.tmp12-0", "config.json.tmp3-1", "model.pt.tmp", "a.tmp12-0"})
    std::ofstream(path / name) << "half";
  RunFolder(path, Results::refuse).begin();
  CHECK_FALSE(fs::exists(path / "model.pt.tmp12-0"));
  CHECK_FALSE(fs::exists(path / "config.json.tmp3-1"));
  CHECK(fs::exists(path / "model.pt.tmp"));
  CHECK(fs::exists(path / "a.tmp12-0"));
}

TEST_CASE("files that no run has left are not replaced, nor what a run reads", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path();
  for (const char* name : {"config.json", "vocab.txt", "decisions.jsonl"}) {
    std::ofstream(path / name) << "theirs";
    CHECK(refusal_of(path, Results::refuse) == Kind::usage);
    fs::remove(path / name);
  }
  CHECK_FALSE(refusal_of(path, Results::refuse).has_value());
  std::ofstream(path / "model.pt") << "ours";
  CHECK(RunFolder(path, Results::replace).replaces(path / ".." / path.filename() / "model.pt"));
  CHECK_FALSE(RunFolder(path, Results::replace).replaces(path / "net.pt"));
  CHECK_FALSE(RunFolder(path, Results::keep).replaces(path / "model.pt"));
}

TEST_CASE("evaluations of all sets end with the weights that they are of", "[run_folder]") {
  const test::TemporaryFolder temporary;
  const fs::path path = temporary.path(), evaluation = path / "evaluation";
  fs::create_directories(evaluation / "birds-train");
  fs::create_directories(evaluation / "mine");
  fs::create_directory(path / "elsewhere");
  fs::create_symlink(path / "elsewhere", evaluation / "link");
  for (const fs::path& folder : {evaluation, evaluation / "birds-train", path / "elsewhere"})
    for (const char* name : {"evaluation.json", "classes.csv"}) std::ofstream(folder / name) << "x";
  std::ofstream(evaluation / "mine" / "notes.txt") << "mine";
  RunFolder(path, Results::replace).begin();
  CHECK_FALSE(fs::exists(evaluation / "evaluation.json"));
  CHECK_FALSE(fs::exists(evaluation / "birds-train"));
  CHECK(fs::exists(evaluation / "mine" / "notes.txt"));
  CHECK(fs::exists(path / "elsewhere" / "evaluation.json"));  // links are not followed
}
