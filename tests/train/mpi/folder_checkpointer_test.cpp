// SPDX-License-Identifier: Apache-2.0
#include "train/folder_checkpointer.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/memory_folder.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/record_log.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::train;
namespace fs = std::filesystem;

namespace {

/// A rank with a value that depends on the step.
struct Fixture {
  comm::Communicator comm{test::session(), 30};
  std::optional<test::TemporaryFolder> temporary;
  std::string path;  // common to all ranks
  test::RecordLog sink;
  std::vector<float> value = std::vector<float>(50000);

  Fixture() {
    if (comm.rank() == 0) temporary.emplace();
    path = comm.broadcast(temporary ? temporary->path() : std::string(), 0);
  }
  ~Fixture() { comm.allgather(0); }

  std::unique_ptr<Checkpointer> make(const std::string& run_folder, std::uint64_t start = 1,
                                     double memory_seconds = 0) {
    auto made = make_folder_checkpointer(comm, sink,
                                         {.run_folder = run_folder,
                                          .keep = 2,
                                          .start = start,
                                          .memory_seconds = memory_seconds,
                                          .memory_number = 7,
                                          .config = "{}",
                                          .collective = "x",
                                          .data = {},
                                          .files = {}},
                                         {});
    made->attach([this](StateVisitor& visitor) { visitor.values("value", value, Across::own); });
    return made;
  }
  void train(StepId done) {
    std::ranges::fill(value, static_cast<float>(100 * comm.rank()) + static_cast<float>(done));
  }
  /// Steps with a file of this rank.
  std::vector<StepId> steps() const {
    std::vector<std::string> damaged;
    std::vector<StepId> found;
    for (const auto& file : checkpoint::StateFolder(path).list(damaged))
      if (file.head.rank == comm.rank()) found.push_back(file.head.step);
    return found;
  }
};

}  // namespace

TEST_CASE("the newest sets are kept, and the state is restored", "[checkpointer]") {
  Fixture fixture;
  const auto saves = fixture.make(fixture.path);
  CHECK_FALSE(saves->restore_newest().has_value());
  for (StepId done = 10; done <= 50; done += 10) {
    fixture.train(done);
    saves->save(done);
    fixture.train(done + 1);  // what is saved is the copy
    // Two complete sets, the one that is being written, and no older ones.
    CHECK(fixture.steps().size() <= 4);
  }
  saves->finish();
  fixture.comm.allgather(0);
  CHECK(fixture.steps() == std::vector<StepId>{50, 40});
  for (const StepId step : {StepId{40}, StepId{50}})
    CHECK(fs::exists(checkpoint::StateFolder(fixture.path).set_path(step) + "/manifest.json"));
  CHECK(saves->restore_newest() == StepId{50});
  CHECK(fixture.value[7] == static_cast<float>(100 * fixture.comm.rank() + 50));
}

TEST_CASE("after saving and waiting another job finds the set", "[checkpointer]") {
  Fixture fixture;
  {
    const auto saves = fixture.make(fixture.path);
    fixture.train(3);
    saves->save(3);
    fixture.train(4);
    saves->save_and_wait(4);
    saves->save_and_wait(4);  // is there already
    CHECK(fs::exists(checkpoint::StateFolder(fixture.path).set_path(4) + "/manifest.json"));
  }
  fixture.train(0);
  const auto other = fixture.make(fixture.path, 2);
  CHECK(other->restore_newest() == StepId{4});
  CHECK(fixture.value[0] == static_cast<float>(100 * fixture.comm.rank() + 4));
  fixture.train(5);
  other->save(5);
  CHECK(other->restore_newest() == StepId{5});
  fixture.train(6);
  other->save(6);
  other->finish();
  fixture.comm.allgather(0);
  CHECK(fixture.steps() == std::vector<StepId>{6, 5});
}

TEST_CASE("a set that was restored is neither written over nor removed too early",
          "[checkpointer]") {
  Fixture fixture;
  {
    const auto saves = fixture.make(fixture.path);
    fixture.train(4);
    saves->save_and_wait(4);
  }
  const auto other = fixture.make(fixture.path, 2);
  CHECK(other->restore_newest() == StepId{4});
  fixture.train(1);
  other->save(4);  // as after a stop in an evaluation
  fixture.train(5);
  other->save(5);
  other->finish();
  fixture.comm.allgather(0);
  CHECK(fixture.steps() == std::vector<StepId>{5, 4});
  fixture.comm.allgather(0);  // all ranks have looked
  if (fixture.comm.rank() == 0) fs::remove_all(checkpoint::StateFolder(fixture.path).set_path(5));
  fixture.comm.allgather(0);
  CHECK(fixture.make(fixture.path, 3)->restore_newest() == StepId{4});
  CHECK(fixture.value[0] == static_cast<float>(100 * fixture.comm.rank() + 4));
}

TEST_CASE("training continues if nothing can be written, and the end reports it",
          "[checkpointer]") {
  Fixture fixture;
  const std::string blocked = fixture.path + "/file";
  if (fixture.comm.rank() == 0) std::ofstream(blocked) << "in the way";
  fixture.comm.allgather(0);
  // The last rank alone cannot write.
  const bool last = fixture.comm.rank() + 1 == fixture.comm.size();
  const auto saves = fixture.make(last ? blocked : fixture.path);
  for (StepId done = 1; done <= 3; ++done) {
    fixture.train(done);
    saves->save(done);
  }
  try {
    saves->save_and_wait(3);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::output);
  }
  try {
    saves->finish();
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::output);
    CHECK(std::string(error.what()).find("cannot") != std::string::npos);
  }
  fixture.comm.allgather(0);
  CHECK(fixture.steps().empty());  // no part of a set is kept
  if (fixture.comm.rank() == 0) {
    CHECK(fixture.sink.notes.size() == 1);  // once
  }
}

TEST_CASE("an older set is kept if a newer one cannot be written", "[checkpointer]") {
  Fixture fixture;
  const auto saves = fixture.make(fixture.path);
  fixture.train(1);
  saves->save_and_wait(1);
  // In the way of the set of step 2.
  if (fixture.comm.rank() == 0)
    std::ofstream(checkpoint::StateFolder(fixture.path).set_path(2)) << "in the way";
  fixture.comm.allgather(0);
  fixture.train(2);
  saves->save(2);
  saves->finish();
  CHECK(fixture.steps() == std::vector<StepId>{1});
  if (fixture.comm.rank() == 0) CHECK(fixture.sink.notes.size() == 2);  // the warning, the pauses
}

namespace {

/// The hosts' memory is a folder of the test.
struct MemoryFixture : Fixture {
  MemoryFixture() { ::setenv("EQT_MEMORY_FOLDER", path.c_str(), 1); }
  ~MemoryFixture() { ::unsetenv("EQT_MEMORY_FOLDER"); }

  /// Saves in memory, and waits until all ranks have written it, as health checks tell a run.
  void keep(Checkpointer& saves, StepId done) {
    train(done);
    saves.save_in_memory(done);
    const auto have = [&] { return comm.allgather(saves.has_unconfirmed() ? 1 : 0); };
    while (std::ranges::count(have(), 1u) < comm.size()) ::usleep(1000);
    saves.confirm_memory();
    comm.allgather(0);
  }
  std::vector<StepId> steps_in_memory() const {
    std::vector<std::string> damaged;
    std::vector<StepId> found;
    for (const auto& file : checkpoint::memory_folder(7).list(damaged))
      if (file.head.rank == comm.rank()) found.push_back(file.head.step);
    return found;
  }
};

}  // namespace

TEST_CASE("one state is kept in memory, and the newest state is restored", "[checkpointer]") {
  MemoryFixture fixture;
  {
    const auto saves = fixture.make(fixture.path, 1, 1e-6);
    CHECK(saves->wants_memory());
    fixture.train(1);
    saves->save_and_wait(1);
    for (StepId done = 2; done <= 4; ++done) {
      fixture.keep(*saves, done);
      CHECK(fixture.steps_in_memory() == std::vector<StepId>{done});
      CHECK(fs::exists(checkpoint::memory_folder(7).set_path(done) + "/manifest.json"));
    }
    CHECK_FALSE(saves->has_unconfirmed());
    // One that was not written everywhere when the job ended.
    fixture.train(5);
    saves->save_in_memory(5);
  }
  fixture.comm.allgather(0);
  if (fixture.comm.rank() == fixture.comm.size() - 1)
    fs::remove(checkpoint::memory_folder(7).file_path(5, fixture.comm.rank(), fixture.comm.size()));
  fixture.comm.allgather(0);
  const auto other = fixture.make(fixture.path, 2, 1e-6);
  CHECK(other->restore_newest() == StepId{4});
  CHECK(fixture.value[7] == static_cast<float>(100 * fixture.comm.rank() + 4));
  CHECK(fixture.steps_in_memory() == std::vector<StepId>{4});
  fixture.keep(*other, 6);
  CHECK(fixture.steps_in_memory() == std::vector<StepId>{6});
  CHECK(other->restore_newest() == StepId{6});
  // A state that is waited for is on the disks and in memory.
  fixture.train(8);
  other->save_and_wait(8);
  fixture.comm.allgather(0);
  CHECK(fixture.steps_in_memory() == std::vector<StepId>{8});
  CHECK(fixture.steps() == std::vector<StepId>{8, 1});
}

TEST_CASE("a stopped run whose next start loses a host continues from the same step",
          "[checkpointer]") {
  MemoryFixture fixture;
  // Every rank is a host with a disk of its own.
  const std::string own = fixture.path + "/host " + std::to_string(fixture.comm.rank());
  {
    const auto saves = fixture.make(own, 1, 1e-6);
    fixture.keep(*saves, 2);
    fixture.train(5);
    saves->save_and_wait(5);
  }
  fixture.comm.allgather(0);
  const auto other = fixture.make(own, 2, 1e-6);
  CHECK(other->restore_newest() == StepId{5});
  CHECK(fixture.steps_in_memory() == std::vector<StepId>{5});
  CHECK(fs::exists(checkpoint::StateFolder(own).set_path(5)));
  // Before the first state in memory of that start, the last host is lost.
  const Rank last = fixture.comm.size() - 1;
  if (fixture.comm.rank() == last) {
    fs::remove_all(own);
    fs::remove(checkpoint::memory_folder(7).file_path(5, last, fixture.comm.size()));
  }
  fixture.comm.allgather(0);
  if (fixture.comm.size() == 1) return;
  const auto third = fixture.make(own, 3, 1e-6);
  CHECK(third->restore_newest() == StepId{5});
  if (fixture.comm.rank() != last)
    CHECK(fixture.value[7] == static_cast<float>(100 * fixture.comm.rank() + 5));
}

TEST_CASE("states in memory of hosts that were away are removed", "[checkpointer]") {
  MemoryFixture fixture;
  {
    const auto saves = fixture.make(fixture.path, 1, 1e-6);
    fixture.keep(*saves, 2);
  }
  {
    // Started without states in memory, as if all other hosts had been.
    const auto saves = fixture.make(fixture.path + "/disk alone", 2);
    fixture.train(5);
    saves->save_and_wait(5);
  }
  const auto third = fixture.make(fixture.path + "/disk alone", 3, 1e-6);
  CHECK(third->restore_newest() == StepId{5});
  fixture.comm.allgather(0);
  CHECK(fixture.steps_in_memory().empty());
}

TEST_CASE("states in memory take at most a hundredth of the time", "[checkpointer]") {
  MemoryFixture fixture;
  fixture.value.resize(5'000'000);
  const auto saves = fixture.make(fixture.path, 1, 1e-6);
  fixture.keep(*saves, 1);
  CHECK_FALSE(saves->wants_memory());  // 20 MB took longer than the time since, divided by 100
}

TEST_CASE("training continues where a state cannot be kept in memory", "[checkpointer]") {
  MemoryFixture fixture;
  const bool last = fixture.comm.rank() + 1 == fixture.comm.size();
  SECTION("no folder can be made") {
    // The last rank's host has no such memory.
    if (last) ::setenv("EQT_MEMORY_FOLDER", (fixture.path + "/nothing").c_str(), 1);
    const auto saves = fixture.make(fixture.path, 1, 1e-6);
    CHECK_FALSE(saves->wants_memory());
    saves->save_in_memory(1);
    CHECK_FALSE(saves->has_unconfirmed());
    saves->finish();
  }
  SECTION("one is in the way of a set") {
    const auto saves = fixture.make(fixture.path, 1, 1e-6);
    fixture.keep(*saves, 1);
    if (fixture.comm.rank() == 0)
      std::ofstream(checkpoint::memory_folder(7).set_path(2)) << "in the way";
    fixture.comm.allgather(0);
    fixture.keep(*saves, 2);
    CHECK(fixture.steps_in_memory() == std::vector<StepId>{1});
    fixture.keep(*saves, 3);
    CHECK(fixture.steps_in_memory() == std::vector<StepId>{3});
  }
  if (fixture.comm.rank() == 0) {
    REQUIRE_FALSE(fixture.sink.notes.empty());
  }
}
