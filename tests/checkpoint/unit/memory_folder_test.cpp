// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/memory_folder.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::checkpoint;
namespace fs = std::filesystem;

namespace {

/// A memory and run folders of the test's own.
struct Host {
  test::TemporaryFolder temporary;
  std::string memory = temporary.path() + "/memory", run = temporary.path() + "/run";
  std::string base = memory + "/equant-train-" + std::to_string(::geteuid());

  Host() {
    fs::create_directory(memory);
    fs::create_directory(run);
    ::setenv("EQT_MEMORY_FOLDER", memory.c_str(), 1);
  }
  ~Host() { ::unsetenv("EQT_MEMORY_FOLDER"); }
};

void write_state(const StateFolder& folder) {
  const FileHead head{.rank = 0, .ranks = 1, .step = 3, .set = 5};
  StateImage image;
  image.begin(head, 0);
  folder.write(head, image.finish());
}

}  // namespace

TEST_CASE("a run folder says where its states in memory are", "[memory_folder]") {
  const Host host;
  CHECK(number_in_memory(host.run) == 0);
  open_memory(host.run, 0xABC);
  CHECK(number_in_memory(host.run) == 0xABC);
  CHECK(memory_folder(0xABC).path() == host.base + "/0000000000000abc");
  struct stat found {};
  REQUIRE(::stat(memory_folder(0xABC).path().c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0700);  // of this user alone
  write_state(memory_folder(0xABC));
  open_memory(host.run, 0xABC);  // by another rank of the host
  CHECK_FALSE(memory_folder(0xABC).empty());
  close_memory(host.run);
  CHECK(number_in_memory(host.run) == 0);
  CHECK_FALSE(fs::exists(memory_folder(0xABC).path()));
  CHECK_FALSE(fs::exists(host.run));  // it was empty
  open_memory(host.run, 0xABC);
  std::ofstream(host.run + "/metrics.jsonl") << "{}\n";
  close_memory(host.run);
  CHECK_FALSE(fs::exists(host.run + "/checkpoints"));
  CHECK(fs::exists(host.run + "/metrics.jsonl"));
  close_memory(host.run);  // there is nothing
}

TEST_CASE("another run of the same folder has states of its own", "[memory_folder]") {
  const Host host;
  open_memory(host.run, 1);
  write_state(memory_folder(1));
  open_memory(host.run, 2);
  CHECK(number_in_memory(host.run) == 2);
  CHECK_FALSE(fs::exists(memory_folder(1).path()));
  CHECK(memory_folder(2).empty());
}

TEST_CASE("states of a run whose folder is gone are removed", "[memory_folder]") {
  const Host host;
  open_memory(host.run, 1);
  write_state(memory_folder(1));
  fs::remove_all(host.run);
  const std::string other = host.temporary.path() + "/other";
  open_memory(other, 2);
  CHECK_FALSE(fs::exists(memory_folder(1).path()));
  open_memory(host.run, 3);
  write_state(memory_folder(3));
  open_memory(other, 2);
  CHECK_FALSE(memory_folder(3).empty());  // its folder is there
}

TEST_CASE("other texts are no number of a run", "[memory_folder]") {
  const Host host;
  fs::create_directory(host.run + "/checkpoints");
  for (const char* const text : {"", "\n", "abc", "00000000000000001", "000000000000000g",
                                 "../../../../../x", "-000000000000001"}) {
    std::ofstream(host.run + "/checkpoints/memory") << text;
    CHECK(number_in_memory(host.run) == 0);
  }
  std::ofstream(host.run + "/checkpoints/memory") << std::string(100000, '1');
  CHECK(number_in_memory(host.run) == 0);
}

TEST_CASE("a folder to which others can write is refused", "[memory_folder]") {
  const Host host;
  SECTION("by everyone") {
    fs::create_directory(host.base);
    ::chmod(host.base.c_str(), 0777);
  }
  SECTION("a link") {
    fs::create_directory(host.temporary.path() + "/elsewhere");
    fs::create_symlink(host.temporary.path() + "/elsewhere", host.base);
  }
  SECTION("no folder") { std::ofstream(host.base) << "in the way"; }
  try {
    open_memory(host.run, 1);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::output);
    CHECK(std::string(error.what()).find(host.base) != std::string::npos);
  }
}
