// SPDX-License-Identifier: Apache-2.0
#include "setup/named_files.hpp"

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::setup;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& file, std::uint64_t at, char byte) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
}

}  // namespace

TEST_CASE("any byte of small files counts, of large ones the first and the last", "[setup]") {
  const test::TemporaryFolder folder;
  const fs::path small = fs::path(folder.path()) / "small", large = small.parent_path() / "large";
  constexpr std::uint64_t kLarge = (std::uint64_t{256} << 20) + 1;
  std::ofstream(small) << std::string(100'000, 'x');
  std::ofstream(large).put('x');
  const auto facts = [&](const fs::path& file) { return file_facts({{"key", file}}); };
  const config::Facts first = facts(small);
  CHECK(facts(small) == first);
  CHECK_FALSE(is_of_pieces(first.front()));
  for (const std::uint64_t at : {0u, 77'777u, 99'999u}) {
    put(small, at, 'y');
    CHECK(facts(small) != first);
    put(small, at, 'x');
    CHECK(facts(small) == first);
  }
  fs::resize_file(large, kLarge);  // without blocks on the disk
  const config::Facts whole = facts(large);
  CHECK(is_of_pieces(whole.front()));
  for (const std::uint64_t at : {std::uint64_t{1}, kLarge - 1}) {
    put(large, at, 'y');
    CHECK(facts(large) != whole);
    put(large, at, '\0');
  }
  fs::resize_file(large, kLarge + 1);
  CHECK(facts(large) != whole);
  // Together they are too large, and the small one still has room.
  const config::Facts both = file_facts({{"a", small}, {"b", large}});
  CHECK_FALSE(is_of_pieces(both[0]));
  CHECK(is_of_pieces(both[1]));
}
