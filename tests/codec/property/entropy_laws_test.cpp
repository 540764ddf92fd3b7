// SPDX-License-Identifier: Apache-2.0
// Laws of the entropy codings: decoded codes, lengths, damaged streams.

#include <algorithm>
#include <vector>

#include "codec/entropy/entropy_coding.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/code_cases.hpp"
#include "support/level_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

constexpr Coding kCodings[] = {Coding::elias, Coding::huffman, Coding::rans, Coding::automatic};

std::vector<std::byte> encode(const EntropyCoding& coding, std::span<const LevelCode> codes) {
  std::vector<std::byte> bytes(coding.max_bytes(codes.size()));
  bytes.resize(coding.encode(codes, bytes));
  bytes.shrink_to_fit();
  return bytes;
}

// Codes of a bucket of Gaussian values with sinh levels of its L2 norm.
std::vector<LevelCode> gaussian_codes(std::size_t count, int n, double theta, std::uint64_t seed) {
  const auto values = gaussian_values(count, seed);
  const Levels levels = sinh_levels(n, theta);
  const auto indices =
      oracle_indices(values, oracle_norm(values, Norm::l2), levels, false, {seed, 0, 0, 0}, 0);
  std::vector<LevelCode> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool negative = indices[i] > 0 && std::signbit(values[i]);
    codes[i] = static_cast<LevelCode>(indices[i] | (negative ? kSignCode : 0u));
  }
  return codes;
}

}  // namespace

TEST_CASE("codes of every alphabet and histogram are decoded correctly", "[entropy]") {
  for_each_simd_target([] {
    for (const Coding name : kCodings) {
      for (int n = 1; n <= 127; n = 2 * n + 1) {
        const EntropyCoding coding(name, n);
        for (const std::size_t count : {1u, 2u, 3u, 31u, 32u, 33u, 63u, 64u, 65u, 1000u, 4099u}) {
          for (const auto& [histogram, codes] : code_cases(count, static_cast<unsigned>(n))) {
            INFO("coding " << static_cast<int>(name) << ", " << n << " levels, " << histogram
                           << ", " << count << " codes");
            const auto bytes = encode(coding, codes);
            REQUIRE(bytes.size() <= coding.max_bytes(count));
            std::vector<LevelCode> decoded(count, 0xEE);
            REQUIRE(coding.decode(bytes, decoded) == bytes.size());
            REQUIRE(decoded == codes);
          }
        }
      }
    }
  });
}

TEST_CASE("automatic coding is exactly the shortest", "[entropy]") {
  for (int n = 1; n <= 127; n = 2 * n + 1) {
    const EntropyCoding elias(Coding::elias, n), huffman(Coding::huffman, n), rans(Coding::rans, n),
        automatic(Coding::automatic, n);
    for (const std::size_t count : {1u, 5u, 40u, 100u, 300u, 1000u, 4000u, 8192u}) {
      for (const auto& [histogram, codes] : code_cases(count, static_cast<unsigned>(n))) {
        INFO(n << " levels, " << histogram << ", " << count << " codes");
        REQUIRE(encode(automatic, codes).size() ==
                std::min({encode(elias, codes).size(), encode(huffman, codes).size(),
                          encode(rans, codes).size()}));
      }
    }
  }
}

TEST_CASE("rANS is within 1.3 % of the entropy of Gaussian buckets, frequencies included",
          "[entropy]") {
  for (const double theta : {0.6, 0.75, 0.85, 1.0}) {
    const EntropyCoding rans(Coding::rans, 7);
    double bits = 0, least = 0, head = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto codes = gaussian_codes(8192, 7, theta, seed);
      bits += 8 * static_cast<double>(encode(rans, codes).size());
      least += entropy_of(codes);
      head += 7 + 8.0 * (*std::max_element(codes.begin(), codes.end(), [](auto a, auto b) {
                    return (a & 0x7F) < (b & 0x7F);
                  }) & 0x7F);
    }
    INFO("theta " << theta << ": " << bits / least << ", without head " << (bits - head) / least);
    REQUIRE(bits > least);
    REQUIRE(bits < 1.013 * least);
    REQUIRE(bits - head < 1.01 * least);
  }
}

TEST_CASE("rANS is near the entropy of skewed histograms", "[entropy]") {
  for (const unsigned top : {1u, 7u, 15u}) {
    const EntropyCoding rans(Coding::rans, static_cast<int>(top));
    for (const auto& [histogram, codes] : code_cases(200000, top)) {
      INFO(histogram << ", indices up to " << top);
      // 2000 bits for frequencies and states, 1 % for rounded frequencies.
      REQUIRE(8 * static_cast<double>(encode(rans, codes).size()) <
              1.01 * entropy_of(codes) + 2000);
    }
  }
}

TEST_CASE("damaged streams decode to codes in range or end in wire errors", "[entropy]") {
  const RandomStream random({3, 1, 4, 1});
  for_each_simd_target([&] {
    std::uint32_t draw = 0;
    for (const Coding name : kCodings) {
      for (const int n : {1, 7, 15, 127}) {
        const EntropyCoding coding(name, n);
        for (const auto& [histogram, codes] : code_cases(700, static_cast<unsigned>(n))) {
          const auto good = encode(coding, codes);
          int refused = 0;
          for (int round = 0; round < 60; ++round) {
            auto bytes = good;
            switch (round % 3) {
              case 0:
                bytes[random.bounded(draw++, bytes.size())] ^=
                    static_cast<std::byte>(1u << round / 3 % 8);
                break;
              case 1:
                bytes.resize(random.bounded(draw++, bytes.size()));
                break;
              default:
                for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits(draw++));
            }
            bytes.shrink_to_fit();
            std::vector<LevelCode> decoded(codes.size());
            try {
              const std::size_t used = coding.decode(bytes, decoded);
              REQUIRE(used <= bytes.size());
              for (const LevelCode code : decoded) REQUIRE((code & 0x7F) <= n);
            } catch (const Error& error) {
              REQUIRE(error.kind() == Kind::wire);
              ++refused;
            }
          }
          REQUIRE(refused >= 20);  // every cut is one
        }
      }
    }
  });
}

TEST_CASE("rANS notices nearly every flipped bit", "[entropy]") {
  const EntropyCoding rans(Coding::rans, 7);
  const auto codes = gaussian_codes(2000, 7, 0.8, 5);
  const auto good = encode(rans, codes);
  const auto nonzeros =
      std::count_if(codes.begin(), codes.end(), [](LevelCode code) { return code != 0; });
  // Any bits are valid signs, and the last byte of a state may have only signs.
  const std::size_t signs = (static_cast<std::size_t>(nonzeros) - 512 + 7) / 8 + 64;
  std::vector<LevelCode> decoded(codes.size());
  const std::size_t bits = 8 * (good.size() - signs);
  std::size_t missed = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    try {
      missed += rans.decode(bytes, decoded) == good.size();
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::wire);
    }
  }
  INFO(missed << " of " << bits << " flips not noticed");
  REQUIRE(missed < bits / 100);
}
