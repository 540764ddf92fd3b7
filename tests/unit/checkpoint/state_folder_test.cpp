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

TEST_CASE("sets have the names that they are known by", "[checkpoint]") {
  const StateFolder folder("run");
  CHECK(folder.file_path(120, 3, 4) == "run/checkpoints/step-00000120/rank-3-of-4.eqt");
  CHECK(folder.set_path(1234567890) == "run/checkpoints/step-1234567890");
}

TEST_CASE("a folder lists what was written, newest first", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  CHECK(folder.empty());
  write(folder, {.rank = 1, .ranks = 2, .step = 7, .start = 5});
  write(folder, {.rank = 0, .ranks = 2, .step = 30, .start = 5});
  CHECK_FALSE(folder.empty());
  folder.write_manifest({.rank = 1, .ranks = 2, .step = 7, .start = 5}, {});
  std::vector<std::string> damaged;
  const auto files = folder.list(damaged);
  REQUIRE(files.size() == 2);
  CHECK(files[0].head == FileHead{.rank = 0, .ranks = 2, .step = 30, .start = 5});
  CHECK_FALSE(files[0].in_manifest);
  CHECK(files[1].head.step == 7);
  CHECK(files[1].in_manifest);
  CHECK(folder.read(files[1]) == state(files[1].head));
  CHECK(damaged.empty());
  folder.remove(30);
  CHECK(folder.list(damaged).size() == 1);
  folder.remove_all();
  CHECK(folder.empty());
}

TEST_CASE("files that are none are told of or passed over", "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  const FileHead head = {.rank = 0, .ranks = 2, .step = 7, .start = 5};
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

TEST_CASE("a folder that cannot be made is an error of output, and nothing is lost",
          "[checkpoint]") {
  const test::TemporaryFolder temporary;
  const std::string file = temporary.path() + "/file";
  std::ofstream(file) << "in the way";
  const StateFolder folder(file);
  try {
    write(folder, {.rank = 0, .ranks = 1, .step = 1, .start = 1});
    FAIL("written into a file");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::output);
  }
  folder.write_manifest({}, {});  // is no error
}
