// SPDX-License-Identifier: Apache-2.0
#include "weights/zip_archive.hpp"

#include <zip.h>

#include <string>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/zip_bytes.hpp"

using namespace eqt;
using support::number_bytes;
using support::zip_bytes;
using test::says;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// The error for these bytes or one of their records; "" if all are accepted.
std::string refusal(const std::string& bytes) {
  const std::string path = "test.zip";
  try {
    const weights::ZipArchive archive(bytes_of(bytes), path);
    for (const auto& record : archive.records()) (void)archive.read(record);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

/// `text` with the bytes at `at` replaced.
std::string with(std::string text, std::size_t at, const std::string& bytes) {
  return text.replace(at, bytes.size(), bytes);
}

const std::string kTwo = zip_bytes({{"a", "12345"}, {"bc", "678"}});
const std::size_t kEntry = kTwo.find("PK\1\2");  // of a
const std::size_t kSecondEntry = kTwo.rfind("PK\1\2");
const std::size_t kEnd = kTwo.rfind("PK\5\6");

}  // namespace

TEST_CASE("stored records are found by name", "[zip_archive]") {
  const std::string path = "test.zip";
  const weights::ZipArchive archive(bytes_of(kTwo), path);
  REQUIRE(archive.records().size() == 2);
  REQUIRE(archive.find("bc") != nullptr);
  CHECK(std::ranges::equal(archive.read(*archive.find("bc")), bytes_of("678")));
  CHECK(archive.find("b") == nullptr);
  CHECK(refusal(with(kTwo, kEnd + 20, number_bytes(4, 2)) + "note").empty());
  CHECK(refusal(zip_bytes({})).empty());
  CHECK(refusal(zip_bytes({{"empty", ""}})).empty());
}

TEST_CASE("a record that is compressed, overlaps another or is out of place is refused",
          "[zip_archive]") {
  const auto in_both = [](std::size_t of_header, std::size_t of_entry, const std::string& bytes) {
    return with(with(kTwo, of_header, bytes), kEntry + of_entry, bytes);
  };
  says(refusal(in_both(8, 10, number_bytes(8, 2))), "a is compressed");
  // libzip 1.11 itself compares more of what is written twice than 1.7.
  constexpr bool kCompares = LIBZIP_VERSION_MAJOR > 1 || LIBZIP_VERSION_MINOR >= 11;
  says(refusal(in_both(6, 8, number_bytes(1, 2))),
       kCompares ? "contradicts itself" : "a is encrypted");
  says(refusal(in_both(22, 24, number_bytes(5000, 4))),
       kCompares ? "contradicts itself" : "not as long as it says");
  const std::string longer = number_bytes(5000, 4) + number_bytes(5000, 4);
  says(refusal(in_both(18, 20, longer)), "no whole zip archive");
  says(refusal(with(kTwo, kEntry + 20, number_bytes(6, 4) + number_bytes(6, 4))), "contradicts");
  says(refusal(with(kTwo, kSecondEntry + 42, number_bytes(0, 4))), "contradicts itself");
  says(refusal(with(kTwo, kSecondEntry + 42, number_bytes(1, 4))), "no whole zip archive");
  says(refusal(with(kTwo, kSecondEntry + 42, number_bytes(0xFFFFFFF0, 4))), "no whole zip archive");
  says(refusal(in_both(14, 16, number_bytes(1, 4))), "record a is damaged: the checksum differs");
  says(refusal(with(kTwo, kTwo.find("12345"), "2")), "record a is damaged");
  says(refusal(zip_bytes({{"a", "1"}, {"a", "2"}})), "two records");
}

TEST_CASE("records that share bytes are refused if they are larger than the file",
          "[zip_archive]") {
  // The bytes of a are a record b: 1031 and 1000 bytes in a file of little more than 1100.
  const std::string inner = zip_bytes({{"b", std::string(1000, 'x')}});
  const std::size_t inner_entry = inner.find("PK\1\2");
  const std::string outer = zip_bytes({{"a", inner.substr(0, inner_entry)}});
  const std::size_t entry = outer.rfind("PK\1\2"), end = outer.rfind("PK\5\6");
  const std::string of_b = inner.substr(inner_entry, inner.rfind("PK\5\6") - inner_entry);
  const std::string directory =
      outer.substr(entry, end - entry) + with(of_b, 42, number_bytes(31, 4));
  const std::string facts =
      number_bytes(2, 2) + number_bytes(2, 2) + number_bytes(directory.size(), 4);
  says(refusal(outer.substr(0, entry) + directory + with(outer.substr(end), 8, facts)),
       "more bytes than the file");
  says(refusal(zip_bytes({{"a", std::string(100, 'x')}, {"a", "y"}})), "two records");
}

TEST_CASE("lengths and positions of 64 bits are read", "[zip_archive]") {
  constexpr std::uint64_t kIn64 = 0xFFFFFFFF;
  // 4.5.3: if a field of the entry is 0xFFFFFFFF, the value is in the extra field, the uncompressed
  // length first.
  const auto archive = [&](const std::string& extra) {
    const std::string one = zip_bytes({{"a", "12345"}});
    const std::size_t entry = one.find("PK\1\2"), end = one.rfind("PK\5\6");
    std::string directory =
        with(one.substr(entry, end - entry), 20, number_bytes(kIn64, 4) + number_bytes(kIn64, 4));
    directory = with(directory, 30, number_bytes(extra.size(), 2)) + extra;
    return one.substr(0, entry) + directory +
           with(one.substr(end), 12, number_bytes(directory.size(), 4));
  };
  const std::string field = number_bytes(1, 2) + number_bytes(16, 2);
  CHECK(refusal(archive(field + number_bytes(5, 8) + number_bytes(5, 8))).empty());
  CHECK(!refusal(archive(field + number_bytes(1ull << 62, 8) + number_bytes(5, 8))).empty());
  CHECK(!refusal(archive(field + number_bytes(5, 8))).empty());
  CHECK(!refusal(archive("")).empty());

  // 4.3.14 and 4.3.15: a directory of 64 bits before the end.
  const auto long_directory = [&](std::uint64_t begin, std::uint64_t entries, std::uint64_t place) {
    const std::string end64 = "PK\6\6" + number_bytes(44, 8) + number_bytes(0, 12) +
                              number_bytes(entries, 8) + number_bytes(entries, 8) +
                              number_bytes(kEnd - kEntry, 8) + number_bytes(begin, 8);
    return kTwo.substr(0, kEnd) + end64 + "PK\6\7" + number_bytes(0, 4) + number_bytes(place, 8) +
           number_bytes(1, 4) + with(kTwo.substr(kEnd), 8, std::string(12, '\xFF'));
  };
  CHECK(refusal(long_directory(kEntry, 2, kEnd)).empty());
  CHECK(!refusal(long_directory(kEntry, 3, kEnd)).empty());
  CHECK(!refusal(long_directory(kEntry, 1ull << 40, kEnd)).empty());
  CHECK(!refusal(long_directory(~0ull, 2, kEnd)).empty());
  CHECK(!refusal(long_directory(kEntry, 2, ~0ull)).empty());
  CHECK(!refusal(long_directory(kEntry, 2, kEnd + 1)).empty());
}

TEST_CASE("a truncated file, or one that is no archive, is refused", "[zip_archive]") {
  says(refusal(""), "no whole zip archive");
  says(refusal("not an archive at all, however long it may be"), "no whole zip archive");
  for (std::size_t cut = 1; cut < kTwo.size(); ++cut) {
    INFO("cut by " << cut);
    CHECK(!refusal(kTwo.substr(0, kTwo.size() - cut)).empty());
    CHECK(!refusal(kTwo.substr(cut)).empty());
  }
}
