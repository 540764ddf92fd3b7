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
