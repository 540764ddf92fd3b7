// SPDX-License-Identifier: Apache-2.0
#include "core/whole_file.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace eqt;

namespace {

constexpr FileLimits kLimits = {.what = "a list", .max_bytes = 4, .remedy = "write a shorter one"};

fs::path file_with(const test::TemporaryFolder& folder, const std::string& bytes) {
  const fs::path file = fs::path(folder.path()) / "file";
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

std::string refusal(const fs::path& file) {
  try {
    (void)read_whole_file(file, kLimits);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    return error.what();
  }
  return "no refusal";
}

}  // namespace

TEST_CASE("a file of at most the limit is read whole, with its zero bytes", "[core]") {
  const test::TemporaryFolder folder;
  for (const std::string& bytes : {std::string(), std::string("a\0b", 3), std::string("abcd")})
    CHECK(read_whole_file(file_with(folder, bytes), kLimits) == bytes);
  CHECK(read_whole_bytes(file_with(folder, "ab"), kLimits) ==
        std::vector<std::byte>{std::byte{'a'}, std::byte{'b'}});
}

TEST_CASE("a file beyond the limit is refused by a sentence with file and limit", "[core]") {
  const test::TemporaryFolder folder;
  const fs::path file = file_with(folder, "abcde");
  CHECK(refusal(file) == "expected a list of at most 4 bytes at " + file.string() +
                             ", found 5; write a shorter one");
}

TEST_CASE("folders, pipes and missing files are refused at once", "[core]") {
  const test::TemporaryFolder folder;
  const fs::path pipe = fs::path(folder.path()) / "pipe", none = fs::path(folder.path()) / "none";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(folder.path()) ==
        "expected a list at " + folder.path() + ", but Is a directory; write a shorter one");
  CHECK(refusal(pipe) ==
        "expected a list at " + pipe.string() + ", but it is no regular file; write a shorter one");
  CHECK(refusal(none) == "expected a list at " + none.string() +
                             ", but No such file or directory; write a shorter one");
}
