#include "model/archive.hpp"

#include <fstream>
#include <functional>
#include <string>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
  return text;
}

/// What an archive of one record "a" says in its directory.
struct Claim {
  std::uint64_t method = 0, in_file = 5, in_memory = 5;
  std::string extra = {};
  std::uint64_t directory_shift = 0;
  std::string comment = {};
};

/// APPNOTE.TXT 4.3.7, 4.3.12 and 4.3.16, by hand.
std::string archive(const Claim& claim) {
  const std::string lengths = number(claim.in_file, 4) + number(claim.in_memory, 4);
  const std::string local = "PK\3\4" + number(20, 2) + number(0, 2) + number(claim.method, 2) +
                            number(0, 8) + lengths + number(1, 2) + number(0, 2) + "a" + "12345";
  const std::string entry = "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) +
                            number(claim.method, 2) + number(0, 8) + lengths + number(1, 2) +
                            number(claim.extra.size(), 2) + number(0, 14) + "a" + claim.extra;
  return local + entry + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(local.size() + claim.directory_shift, 4) +
         number(claim.comment.size(), 2) + claim.comment;
}

/// The sentence that refuses these bytes; "" if they are taken.
std::string refusal(const std::string& bytes) {
  const std::string path = "archive_test.zip";
  std::ofstream(path, std::ios::binary) << bytes;
  std::string sentence;
  try {
    model::require_stored_records(path);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    sentence = error.what();
  }
  std::remove(path.c_str());
  return sentence;
}

bool says(const std::string& sentence, const std::string& part) {
  INFO(sentence);
  CHECK(sentence.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("an archive of stored records is taken, one that could grow is not", "[archive]") {
  CHECK(refusal(archive({})).empty());
  CHECK(refusal(archive({.comment = std::string(1000, 'c')})).empty());
  says(refusal(archive({.method = 8, .in_file = 5, .in_memory = 5000})), "compressed");
  says(refusal(archive({.in_file = 5, .in_memory = 5000})), "not as long as it says");
  says(refusal(archive({.in_file = 5000, .in_memory = 5000})), "longer than the file");
  // 64-bit lengths stand in the extra field, memory first (4.5.3).
  const std::string small = number(1, 2) + number(16, 2) + number(5, 8) + number(5, 8);
  const std::string huge = number(1, 2) + number(16, 2) + number(1, 8 - 1) + "\x7F" + number(5, 8);
  constexpr std::uint64_t kIn64 = 0xFFFFFFFF;
  CHECK(refusal(archive({.in_file = kIn64, .in_memory = kIn64, .extra = small})).empty());
  says(refusal(archive({.in_file = kIn64, .in_memory = kIn64, .extra = huge})), "not as long");
  says(refusal(archive({.in_file = kIn64, .in_memory = kIn64, .extra = small.substr(0, 12)})),
       "damaged");
}

TEST_CASE("a directory that does not lie in the file is refused", "[archive]") {
  const std::string whole = archive({});
  says(refusal(archive({.directory_shift = 1})), "directory");
  says(refusal(archive({.directory_shift = 0xFFFF0000})), "directory");
  says(refusal(""), "no zip archive");
  says(refusal("not an archive at all"), "no zip archive");
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    INFO("cut by " << cut);
    CHECK(!refusal(whole.substr(0, whole.size() - cut)).empty());
  }
}
