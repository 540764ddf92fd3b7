// SPDX-License-Identifier: Apache-2.0
// Nested gaps: bytes by hand, round trips, sizes near the entropy, malformed bytes.

#include "codec/rate/nested_gaps.hpp"

#include <cmath>

#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr std::uint32_t kLargest = 15;

Bytes written(std::span<const LevelCode> codes, std::uint32_t largest = kLargest) {
  Bytes bytes(nested_gaps_max_bytes(codes.size(), largest));
  bytes.resize(write_nested_gaps(codes, largest, bytes));
  return bytes;
}

/// Codes whose index is at least j with probability share^j, of random signs.
std::vector<LevelCode> random_codes(std::size_t count, double share, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::uint32_t next = 0;
  std::vector<LevelCode> codes(count);
  for (LevelCode& code : codes) {
    while (code < kLargest && stream.uniform(next++) < share) ++code;
    if (code > 0 && stream.uniform(next++) < 0.5f) code |= kSignCode;
  }
  return codes;
}

}  // namespace

TEST_CASE("nested gaps have the bytes that FORMAT.md describes", "[nested_gaps]") {
  const std::vector<LevelCode> codes = {0, 1, 0, 0, kSignCode | 1, 2, 0, 0};
  const auto values_of = [](const Bytes& bytes) {
    std::vector<unsigned> values;
    for (const std::byte b : bytes) values.push_back(std::to_integer<unsigned>(b));
    return values;
  };
  // Set 1 has the gaps 1, 2, 0 of 8; set 2 has the gap 2 of 3; signs 0 1 0.
  CHECK(values_of(written(codes, 2)) == std::vector<unsigned>{3, 0, 0x32, 1, 0, 0x04, 0x02});
  // Where larger indices may follow, set 3 is there and empty.
  CHECK(values_of(written(codes)) == std::vector<unsigned>{3, 0, 0x32, 1, 0, 0x04, 0, 0x02});
  CHECK(written(std::vector<LevelCode>(8), 0).empty());
}

TEST_CASE("nested gaps are read as they were written", "[nested_gaps]") {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 64u, 1000u, 32768u}) {
    for (const double share : {0.0, 0.001, 0.05, 0.4, 0.6, 0.97, 1.0}) {
      const auto codes = random_codes(count, share, count + 1);
      const Bytes bytes = written(codes);
      std::vector<LevelCode> found(count, LevelCode{99});
      INFO(count << " codes, share " << share);
      REQUIRE(read_nested_gaps(bytes, kLargest, found) == bytes.size());
      REQUIRE(found == codes);
      std::uint32_t largest = 0;
      for (const LevelCode code : codes)
        largest = std::max<std::uint32_t>(largest, code % kSignCode);
      const Bytes exact = written(codes, largest);
      std::ranges::fill(found, LevelCode{99});
      REQUIRE(read_nested_gaps(exact, largest, found) == exact.size());
      REQUIRE(found == codes);
    }
  }
}

TEST_CASE("nested gaps are within 6 % of the entropy of rare indices", "[nested_gaps]") {
  const std::size_t count = 1 << 20;
  for (const double share : {0.002, 0.01, 0.05, 0.1}) {
    // A geometric index: each set has the entropy of its share of the one before; a sign is a bit.
    const double of_one = -share * std::log2(share) - (1 - share) * std::log2(1 - share);
    const double entropy = of_one / (1 - share) + share;
    const auto bits = 8 * static_cast<double>(written(random_codes(count, share, 5)).size());
    INFO("share " << share);
    CHECK(bits / static_cast<double>(count) < 1.06 * entropy);
  }
}

TEST_CASE("malformed nested gaps are refused or have indices in range", "[nested_gaps][fuzz]") {
  const RandomStream stream({3, 0, 0, 0});
  std::uint32_t next = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t count = 1 + stream.bounded(next++, 300);
    const float share = stream.uniform(next++);
    const auto codes = random_codes(count, share, next++);
    Bytes bytes = written(codes);
    for (int change = 0; change < 2; ++change) {
      const std::size_t at = stream.bounded(next++, bytes.size());
      bytes[at] ^= static_cast<std::byte>(1 + stream.bounded(next++, 255));
    }
    const bool cut = stream.bounded(next++, 4) == 0;
    if (cut) bytes.resize(stream.bounded(next++, bytes.size()));
    const Bytes exact(bytes);
    std::vector<LevelCode> found(count);
    try {
      const std::size_t used = read_nested_gaps(exact, kLargest, found);
      REQUIRE(used <= exact.size());
      for (const LevelCode code : found) REQUIRE((code & 0x7F) <= kLargest);
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::wire);
      ++refused;
    }
  }
  CHECK(refused > 5000);
}
