// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"

using namespace eqt;
using namespace eqt::checkpoint;

namespace {

using Bytes = std::vector<std::byte>;

constexpr FileHead kHead = {.rank = 2, .ranks = 3, .step = 120, .set = 0x1234567890ABCDEF};

Bytes example() {
  StateImage image;
  image.begin(kHead, 0);
  const std::vector<float> momentum = {1.5f, -2, 0.25f};
  const std::vector<double> loss = {0.125};
  const std::vector<std::uint64_t> counts = {7, 9};
  const std::string config = "{\"seed\": 1}";
  image.append("optimizer/momentum", SectionKind::floats, Across::same,
               std::as_bytes(std::span(momentum)));
  image.append("ledger/loss", SectionKind::doubles, Across::own, std::as_bytes(std::span(loss)));
  image.append("counts", SectionKind::numbers, Across::fresh, std::as_bytes(std::span(counts)));
  image.append("config", SectionKind::text, Across::same, std::as_bytes(std::span(config)));
  image.append("nothing", SectionKind::floats, Across::sum, {});
  const auto file = image.finish();
  return {file.begin(), file.end()};
}

/// Copied to memory of exactly their length, so that a sanitizer detects reads outside.
std::string refusal_of(std::span<const std::byte> bytes) {
  const auto exact = std::make_unique<std::byte[]>(std::max<std::size_t>(1, bytes.size()));
  std::ranges::copy(bytes, exact.get());
  try {
    const StateFile file({exact.get(), bytes.size()}, "rank-2-of-3.eqt");
  } catch (const Error& error) {
    return error.kind() == Kind::data ? error.what() : std::string("another kind of error");
  }
  return {};
}

void expect_refused(std::span<const std::byte> bytes) {
  const std::string sentence = refusal_of(bytes);
  CHECK(sentence.starts_with("rank-2-of-3.eqt: expected "));
  CHECK(sentence.find(", found ") != std::string::npos);
}

// Positions, as in FORMAT.md, of the fields that the tests change.
constexpr std::size_t kTableBegin = 40, kTableHash = 56, kHeadHash = 64, kHeadBytes = 72;
constexpr std::size_t kNameBytes = 2, kSectionBytes = 4;  // in an entry

template <typename T>
T at(const Bytes& bytes, std::size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  return value;
}

template <typename T>
void put(Bytes& bytes, std::size_t place, T value) {
  std::memcpy(bytes.data() + place, &value, sizeof(T));
}

/// Corrects the hashes after a change of the table or the head.
void seal(Bytes& bytes) {
  const auto table = static_cast<std::size_t>(at<std::uint64_t>(bytes, kTableBegin));
  if (table <= bytes.size())
    put(bytes, kTableHash, XXH3_64bits(bytes.data() + table, bytes.size() - table));
  put(bytes, kHeadHash, XXH3_64bits(bytes.data(), kHeadHash));
}

}  // namespace

TEST_CASE("a file has the sections that were written", "[checkpoint]") {
  const Bytes bytes = example();
  const StateFile file(bytes, "x");
  CHECK(file.head() == kHead);
  CHECK(file.sections().size() == 5);
  const Section* const momentum = file.find("optimizer/momentum");
  REQUIRE(momentum != nullptr);
  CHECK(momentum->kind == SectionKind::floats);
  CHECK(momentum->across == Across::same);
  REQUIRE(momentum->count() == 3);
  float second = 0;
  std::memcpy(&second, momentum->bytes.data() + sizeof(float), sizeof(float));
  CHECK(second == -2);
  CHECK(file.find("config")->text() == "{\"seed\": 1}");
  CHECK(file.find("nothing")->count() == 0);
  CHECK(file.find("momentum") == nullptr);
  CHECK(read_head(std::span(bytes).first(head_bytes()), bytes.size(), "x") == kHead);
  CHECK(hash_in_head(bytes) == file.hash());
}

TEST_CASE("an image can be reused", "[checkpoint]") {
  StateImage image;
  const std::vector<float> values(5000, 1.0f);
  for (StepId step = 0; step < 3; ++step) {
    image.begin({.rank = 0, .ranks = 1, .step = step, .set = 1}, 0);
    image.append("v", SectionKind::floats, Across::mean,
                 std::as_bytes(std::span(values).first(5000 - 1000 * step)));
    const StateFile file(image.finish(), "x");
    CHECK(file.head().step == step);
    CHECK(file.find("v")->count() == 5000 - 1000 * step);
    CHECK(file.hash() == image.hash());
  }
}

TEST_CASE("every flipped bit is refused", "[checkpoint]") {
  Bytes bytes = example();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto mask = static_cast<std::byte>(1 << bit);
      bytes[i] ^= mask;
      INFO("byte " << i << ", bit " << bit);
      expect_refused(bytes);
      bytes[i] ^= mask;
    }
  }
  CHECK(refusal_of(bytes).empty());
}

TEST_CASE("every other length is refused", "[checkpoint]") {
  Bytes bytes = example();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO(length << " of " << bytes.size() << " bytes");
    expect_refused(std::span(bytes).first(length));
  }
  for (int more = 0; more < 100; ++more) {
    bytes.push_back(std::byte{0});
    expect_refused(bytes);
  }
}

TEST_CASE("wrong lengths with correct hashes are refused before anything is allocated",
          "[checkpoint]") {
  const Bytes good = example();
  const auto table = static_cast<std::size_t>(at<std::uint64_t>(good, kTableBegin));
  std::vector<Bytes> forged;
  for (const std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{13}, std::uint64_t{1} << 20, std::uint64_t{1} << 40,
        std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 71}) {
    forged.push_back(good);
    put(forged.back(), table + kSectionBytes, lie);  // of the first section
    forged.push_back(good);
    put(forged.back(), kTableBegin, lie);
  }
  for (const std::uint16_t lie : {std::uint16_t{0}, std::uint16_t{257}, std::uint16_t{65535}}) {
    forged.push_back(good);
    put(forged.back(), table + kNameBytes, lie);
  }
  forged.push_back(good);  // in a longer file
  put(forged.back(), std::size_t{48}, std::uint64_t{1} << 40);
  for (Bytes& bytes : forged) {
    seal(bytes);
    test::g_largest_allocation = 0;
    expect_refused(bytes);
    CHECK(test::g_largest_allocation < 4096);  // the error message
  }
}

TEST_CASE("invalid kinds, ranks and names are refused", "[checkpoint]") {
  const Bytes good = example();
  const auto table = static_cast<std::size_t>(at<std::uint64_t>(good, kTableBegin));
  const auto expect = [&](std::size_t place, auto value) {
    Bytes bytes = good;
    put(bytes, place, value);
    seal(bytes);
    INFO("place " << place);
    expect_refused(bytes);
  };
  expect(table, std::uint8_t{5});                     // a kind
  expect(table + 1, std::uint8_t{5});                 // an Across
  expect(std::size_t{16}, std::uint32_t{3});          // rank 3 of 3
  expect(std::size_t{20}, std::uint32_t{0});          // of no ranks
  expect(std::size_t{20}, std::uint32_t{1} << 31);    // more than possible
  expect(std::size_t{8}, std::uint32_t{0x04030201});  // byte order
  expect(std::size_t{12}, std::uint32_t{1});          // version
  expect(std::size_t{12}, std::uint32_t{3});
}

TEST_CASE("two sections of one name are refused", "[checkpoint]") {
  StateImage image;
  image.begin(kHead, 0);
  image.append("aa", SectionKind::text, Across::same, {});
  image.append("ab", SectionKind::text, Across::same, {});
  CHECK_THROWS_AS(image.append("ab", SectionKind::text, Across::same, {}), Error);
  const auto file = image.finish();
  Bytes bytes(file.begin(), file.end());
  CHECK(refusal_of(bytes).empty());
  const auto last = std::find_end(bytes.begin(), bytes.end(), std::begin("ab"), std::end("ab") - 1,
                                  [](std::byte b, char c) { return static_cast<char>(b) == c; });
  REQUIRE(last != bytes.end());
  *(last + 1) = static_cast<std::byte>('a');
  seal(bytes);
  expect_refused(bytes);
}
