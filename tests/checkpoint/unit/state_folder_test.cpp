// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_folder.hpp"

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

std::vector<std::byte> state(const FileHead& head) {
  StateImage image;
  image.begin(head, 0);
  const auto file = image.finish();
  return {file.begin(), file.end()};
}

void write(const StateFolder& folder, const FileHead& head) { folder.write(head, state(head)); }

}  // namespace

TEST_CASE("sets have their documented names", "[checkpoint]") {
  const StateFolder folder("run");
  CHECK(folder.file_path(120, 3, 4) == "run/checkpoints/step-00000120/rank-3-of-4.eqt");
  CHECK(folder.set_path(1234567890) == "run/checkpoints/step-1234567890");
}

TEST_CASE("a folder lists what was written, newest first", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  CHECK(folder.empty());
  write(folder, {.rank = 1, .ranks = 2, .step = 7, .set = 5});
  write(folder, {.rank = 0, .ranks = 2, .step = 30, .set = 5});
  CHECK_FALSE(folder.empty());
  std::vector<std::string> damaged;
  const FoundFile saved = folder.list(damaged).back();
  const ManifestEntry entry = {.rank = 1, .bytes = saved.bytes, .hash = saved.hash};
  folder.write_manifest({.rank = 1, .ranks = 2, .step = 7, .set = 5}, {&entry, 1});
  const auto files = folder.list(damaged);
  REQUIRE(files.size() == 2);
  CHECK(files[0].head == FileHead{.rank = 0, .ranks = 2, .step = 30, .set = 5});
  CHECK_FALSE(files[0].in_manifest);
  CHECK(files[1].head.step == 7);
  CHECK(files[1].in_manifest);
  CHECK(folder.read(files[1]) == state(files[1].head));
  CHECK(damaged.empty());
  folder.remove(30);
  CHECK(folder.list(damaged).size() == 1);
  folder.remove_all();
  CHECK(folder.empty());
  CHECK_FALSE(fs::exists(folder.path()));
}

TEST_CASE("only what this program wrote is removed", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  const fs::path place = folder.path(), set = folder.set_path(7), strange = folder.set_path(8);
  write(folder, {.rank = 0, .ranks = 2, .step = 7, .set = 5});
  folder.write_manifest({.rank = 0, .ranks = 2, .step = 7, .set = 5}, {});
  std::ofstream(set / "rank-1-of-2.eqt");  // empty, as after a full disk
  fs::create_directories(strange);
  const std::vector<fs::path> strangers = {place / "notes.txt", set / "notes.txt",
                                           strange / "rank-0-of-2.eqt", strange / "manifest.json",
                                           strange / "rank-0-of-2.eqt.bak"};
  for (const fs::path& file : strangers) std::ofstream(file) << "mine";
  // Targets of links are not ours.
  const test::TemporaryFolder elsewhere;
  const StateFolder theirs(elsewhere.path());
  write(theirs, {.rank = 0, .ranks = 2, .step = 9, .set = 5});
  fs::create_directory_symlink(theirs.set_path(9), folder.set_path(9));
  CHECK_FALSE(folder.empty());
  fs::create_directories(folder.set_path(10));  // empty after a save on a full disk
  folder.remove(10);
  CHECK_FALSE(fs::exists(folder.set_path(10)));
  folder.remove(8);
  folder.remove(9);
  folder.remove_all();
  for (const fs::path& file : strangers) CHECK(fs::exists(file));
  CHECK_FALSE(theirs.empty());
  CHECK(folder.empty());
  CHECK(std::distance(fs::directory_iterator(set), fs::directory_iterator()) == 1);
}

TEST_CASE("a set is not written through a link, and an older manifest is removed", "[checkpoint]") {
  const test::TemporaryFolder temporary, elsewhere;
  const StateFolder folder(temporary.path());
  const FileHead head = {.rank = 0, .ranks = 1, .step = 7, .set = 5};
  write(folder, head);
  folder.write_manifest(head, {});
  write(folder, {.rank = 0, .ranks = 1, .step = 7, .set = 6});
  CHECK_FALSE(fs::exists(fs::path(folder.set_path(7)) / "manifest.json"));
  fs::create_directory_symlink(elsewhere.path(), folder.set_path(8));
  CHECK_THROWS_AS(write(folder, {.rank = 0, .ranks = 1, .step = 8, .set = 5}), Error);
  CHECK(fs::is_empty(elsewhere.path()));
}

TEST_CASE("a manifest is read as it was written, and a damaged one is reported", "[checkpoint]") {
  const Manifest manifest = {.step = 120,
                             .ranks = 3,
                             .set = 0xABCDEF,
                             .files = {{.rank = 2, .bytes = 17, .hash = 1},
                                       {.rank = 0, .bytes = 0, .hash = ~std::uint64_t{0}}}};
  const std::string text = text_of(manifest);
  const Manifest found = read_manifest(text, "m");
  CHECK(found.step == 120);
  CHECK(found.ranks == 3);
  CHECK(found.set == 0xABCDEF);
  CHECK(found.files == manifest.files);
  CHECK(found.find(1) == nullptr);
  CHECK(begins_like_manifest(text));
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_THROWS_AS(read_manifest(text.substr(0, length), "m"), Error);
  CHECK_THROWS_AS(read_manifest(text + " ", "m"), Error);
  std::string older = text;
  older.replace(older.find("\"format\": 2"), 11, "\"format\": 1");
  CHECK_THROWS_AS(read_manifest(older, "m"), Error);
}

TEST_CASE("a folder that cannot be read is an error, not an empty one", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  fs::create_symlink("checkpoints", folder.path());  // a loop
  std::vector<std::string> damaged;
  CHECK_THROWS_AS(folder.list(damaged), Error);
  CHECK_THROWS_AS(folder.empty(), Error);
}

TEST_CASE("files that are no state files are reported or ignored", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  const FileHead head = {.rank = 0, .ranks = 2, .step = 7, .set = 5};
  write(folder, head);
  const fs::path set = folder.set_path(7);
  std::ofstream(set / "rank-1-of-2.eqt.tmp") << "half";
  std::ofstream(set / "notes.txt") << "mine";
  fs::create_directories(fs::path(folder.path()) / "step-abc");
  std::vector<std::string> damaged;
  CHECK(folder.list(damaged).size() == 1);
  CHECK(damaged.empty());
  std::ofstream(set / "rank-1-of-2.eqt") << "short";
  fs::copy_file(set / "rank-0-of-2.eqt", set / "rank-0-of-3.eqt");
  CHECK(folder.list(damaged).size() == 1);
  REQUIRE(damaged.size() == 2);
  for (const std::string& sentence : damaged) {
    const bool names = sentence.find("rank-1-of-2.eqt: expected") != std::string::npos ||
                       sentence.find("rank-0-of-3.eqt: expected") != std::string::npos;
    CHECK(names);
  }
}

TEST_CASE("a folder that cannot be made is an output error, and nothing is lost", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const std::string file = temporary.path() + "/file";
  std::ofstream(file) << "in the way";
  const StateFolder folder(file);
  try {
    write(folder, {.rank = 0, .ranks = 1, .step = 1, .set = 1});
    FAIL("written into a file");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::output);
  }
  folder.write_manifest({}, {});  // is no error
}
