// SPDX-License-Identifier: Apache-2.0
// Malformed payloads: every one is an Error{wire} or decodes to finite values.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

constexpr std::size_t kBucket = 32;
constexpr int kRounds = 10000;

enum class Outcome { decoded, wire };

// A copy of exactly the payload's size, so that a sanitizer sees any read beyond it.
Outcome decode(const Compressor& compressor, const std::vector<std::byte>& payload,
               std::size_t count, Workspace& workspace) {
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  std::vector<float> sum(count, 0.0f);
  try {
    compressor.decode_add(exact, 1.0f, workspace, sum);
  } catch (const Error& error) {
    REQUIRE(error.kind() == Kind::wire);
    return Outcome::wire;
  }
  for (const float value : sum) REQUIRE(std::isfinite(value));
  return Outcome::decoded;
}

// One of: bytes flipped, cut short, extended, replaced by noise.
std::vector<std::byte> damage(std::vector<std::byte> payload, const RandomStream& random,
                              std::uint32_t round) {
  auto draw = [&, k = 0u](std::size_t bound) mutable {
    return static_cast<std::size_t>(random.bounded(round * 64 + k++, bound));
  };
  switch (draw(4)) {
    case 0:
      for (std::size_t flips = 1 + draw(3); flips > 0; --flips) {
        payload[draw(payload.size())] ^= static_cast<std::byte>(1u << draw(8));
      }
      break;
    case 1:
      payload.resize(draw(payload.size()));
      break;
    case 2:
      for (std::size_t more = 1 + draw(9); more > 0; --more) {
        payload.push_back(static_cast<std::byte>(draw(256)));
      }
      break;
    default:
      // The norm is kept, because noise would almost always be refused there.
      for (std::size_t i = 4; i < payload.size(); ++i) {
        payload[i] =
            static_cast<std::byte>(random.bits(round * 4096 + static_cast<std::uint32_t>(i)));
      }
  }
  return payload;
}

Outcome decode_bits(const Compressor& compressor, const std::string& bits_after_norm,
                    std::size_t count) {
  const float norm = 1;
  std::vector<std::byte> payload(4);
  std::memcpy(payload.data(), &norm, 4);
  for (std::size_t i = 0; i < bits_after_norm.size(); i += 8) {
    unsigned byte = 0;
    for (std::size_t k = i; k < i + 8; ++k) {
      byte = byte << 1 | (k < bits_after_norm.size() && bits_after_norm[k] == '1' ? 1u : 0u);
    }
    payload.push_back(static_cast<std::byte>(byte));
  }
  Workspace workspace;
  return decode(compressor, payload, count, workspace);
}

}  // namespace

TEST_CASE("damaged payloads end in wire errors or finite values", "[malformed]") {
  const RandomStream random({77, 0, 0, 0});
  Workspace workspace;
  for (const Coding coding :
       {Coding::fixed, Coding::elias, Coding::huffman, Coding::rans, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      // All variants of a width share the reading code, so every codec and width is tested once.
      if (c.oracle.norm == Norm::max && c.name.starts_with("elasti")) continue;
      if (c.oracle.bits != 2 && c.oracle.bits != 3 && c.oracle.bits != 4 && c.oracle.bits != 8)
        continue;
      INFO(c.name << ", coding " << static_cast<int>(coding));
      int refused = 0;
      std::vector<std::vector<std::byte>> good;
      for (std::size_t count = 1; count <= 100; count += 9) {
        EncodeContext context;
        good.push_back(encode_to_vector(*c.compressor, gaussian_values(count, count), context));
      }
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        const std::size_t which = round % good.size();
        const auto payload = damage(good[which], random, round);
        refused += decode(*c.compressor, payload, 1 + 9 * which, workspace) == Outcome::wire;
      }
      REQUIRE(refused > kRounds / 3);  // cuts and extensions alone are half of them
    }
  }
}

TEST_CASE("every cut and every extension is refused", "[malformed]") {
  Workspace workspace;
  const auto values = gaussian_values(70, 3);
  for (const Coding coding :
       {Coding::fixed, Coding::elias, Coding::huffman, Coding::rans, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      INFO(c.name);
      auto payload = encode_to_vector(*c.compressor, values, {});
      for (std::size_t size = 0; size < payload.size(); ++size) {
        const std::vector<std::byte> cut(payload.begin(),
                                         payload.begin() + static_cast<std::ptrdiff_t>(size));
        REQUIRE(decode(*c.compressor, cut, values.size(), workspace) == Outcome::wire);
      }
      payload.push_back(std::byte{0});
      REQUIRE(decode(*c.compressor, payload, values.size(), workspace) == Outcome::wire);
    }
  }
}

TEST_CASE("norms that are negative or NaN are refused", "[malformed]") {
  Workspace workspace;
  const auto values = gaussian_values(20, 3);
  for (const LevelCase& c : level_cases(Coding::fixed, kBucket)) {
    for (const float norm : {-1.0f, -0.0f, std::nanf(""), -std::nanf(""), -kInfinity}) {
      auto payload = encode_to_vector(*c.compressor, values, {});
      std::memcpy(payload.data(), &norm, 4);
      REQUIRE(decode(*c.compressor, payload, values.size(), workspace) == Outcome::wire);
    }
  }
}

TEST_CASE("raw buckets with values that are not finite are refused", "[malformed]") {
  const auto codec =
      make_compressor("qsgd", {.bits = 4, .bucket_size = 8, .coding = Coding::fixed});
  Workspace workspace;
  std::vector<float> raw = {kInfinity, 1.0f, 2.0f};
  std::vector<std::byte> payload(12);
  std::memcpy(payload.data(), raw.data(), 12);
  REQUIRE(decode(*codec, payload, 2, workspace) == Outcome::decoded);
  raw[2] = std::nanf("");
  std::memcpy(payload.data(), raw.data(), 12);
  REQUIRE(decode(*codec, payload, 2, workspace) == Outcome::wire);
}

TEST_CASE("bit streams that break one rule each are refused", "[malformed]") {
  const auto elias = make_compressor(
      "qsgd", {.bits = 3, .bucket_size = 8, .coding = Coding::elias});  // indices 0 ... 3
  const auto huffman =
      make_compressor("qsgd", {.bits = 3, .bucket_size = 8, .coding = Coding::huffman});
  const auto automatic =
      make_compressor("qsgd", {.bits = 3, .bucket_size = 8, .coding = Coding::automatic});
  const std::string w1 = "01", w2 = "10", w3 = "11";
  // Sparse: one nonzero, gap 2, plus, index 3.
  REQUIRE(decode_bits(*elias, w1 + "100" + "100" + "0" + "110", 4) == Outcome::decoded);
  REQUIRE(decode_bits(*elias, w1 + "100" + "101000" + "0" + "110", 4) ==
          Outcome::decoded);                                                              // gap 4
  REQUIRE(decode_bits(*elias, w1 + "100" + "101010" + "0" + "110", 4) == Outcome::wire);  // gap 5
  REQUIRE(decode_bits(*elias, w1 + "100" + "100" + "0" + "101000", 4) == Outcome::wire);  // index 4
  REQUIRE(decode_bits(*elias, w1 + "101100", 4) == Outcome::wire);  // 5 nonzeros of 4 values
  REQUIRE(decode_bits(*elias, w1 + std::string(200, '1'), 4) == Outcome::wire);  // no omega word
  // Dense: indices 0, 1 (minus), 0, 3 (plus).
  REQUIRE(decode_bits(*elias, w2 + "0" + "1001" + "0" + "1010000", 4) == Outcome::decoded);
  REQUIRE(decode_bits(*elias, w2 + "0" + "1001" + "0" + "1010100", 4) == Outcome::wire);  // index 4
  REQUIRE(decode_bits(*elias, w2 + "0001" + "00", 4) == Outcome::wire);  // padding of ones
  // Huffman: lengths 1, 1, 0, 0; values 0, 1 (plus), 0, 0.
  const std::string two = "0001000100000000";
  REQUIRE(decode_bits(*huffman, w3 + two + "0" + "10" + "0" + "0", 4) == Outcome::decoded);
  REQUIRE(decode_bits(*huffman, w3 + "0001001000000000" + "0000", 4) ==
          Outcome::wire);  // incomplete
  REQUIRE(decode_bits(*huffman, w3 + "0001000100010000" + "0000", 4) == Outcome::wire);  // crowded
  REQUIRE(decode_bits(*huffman, w3 + "0000000000000000" + "0000", 4) == Outcome::wire);  // empty
  REQUIRE(decode_bits(*huffman, w3 + "1111000100000000" + "0000", 4) == Outcome::wire);  // 15 bits
  // The other word of a single symbol.
  REQUIRE(decode_bits(*huffman, w3 + "0001000000000000" + "0000", 4) == Outcome::decoded);
  REQUIRE(decode_bits(*huffman, w3 + "0001000000000000" + "0100", 4) == Outcome::wire);
  // Containers that the coding does not allow.
  REQUIRE(decode_bits(*elias, w3 + two + "0000", 4) == Outcome::wire);
  REQUIRE(decode_bits(*huffman, w2 + "0000", 4) == Outcome::wire);
  REQUIRE(decode_bits(*automatic, w2 + "0000", 4) == Outcome::decoded);
  REQUIRE(decode_bits(*elias, "00" + std::string("0000"), 4) == Outcome::wire);
}
