// SPDX-License-Identifier: Apache-2.0
// Malformed payloads: a wire error or finite values.

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/sparse/sparse.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/sparse_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::vector<std::unique_ptr<Compressor>> all_codecs() {
  std::vector<std::unique_ptr<Compressor>> codecs;
  for (const int bits : {32, 16, 8, 4, 2, 1}) {
    for (const double density : {0.02, 0.9}) {
      codecs.push_back(make_compressor("topk", {.density = density, .value_bits = bits}));
    }
    codecs.push_back(make_compressor("threshold", {.density = 0.1, .value_bits = bits}));
    codecs.push_back(make_compressor("randomk", {.density = 0.1, .value_bits = bits}));
  }
  return codecs;
}

/// Numbers for the damage, one after another.
class RandomNumbers {
 public:
  std::size_t operator()(std::size_t bound) {
    return static_cast<std::size_t>(stream_.bounded(next_++, bound));
  }

 private:
  RandomStream stream_{RandomKey{77, 0, 0, 0}};
  std::uint32_t next_ = 0;
};

/// The bits of a payload that say how many values there are.
std::size_t bits_of_count(const Compressor& codec, const Bytes& payload) {
  return codec.id() == CodecId::randomk ? 32 : 8 * (head_of(payload).bytes - 2);
}

/// Whether the payload is refused; fails the test unless it is, or gives finite values.
bool refused(const Compressor& codec, const Bytes& payload, std::size_t count) {
  const Bytes exact(payload);  // an exact allocation, so that a sanitizer sees any access outside
  std::vector<float> sum(count, 0.0f);
  Workspace workspace;
  if (codec.id() != CodecId::randomk) {
    std::vector<float> memory(count, 1.0f);
    try {
      zero_sent(exact, memory);
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::wire);
    }
  }
  try {
    codec.decode_add(exact, 1.0f, workspace, sum);
  } catch (const Error& error) {
    REQUIRE(error.kind() == Kind::wire);
    return true;
  }
  for (const float v : sum) REQUIRE(std::isfinite(v));
  return false;
}

}  // namespace

TEST_CASE("every truncation and every extension is refused", "[fuzz]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : {1u, 9u, 300u}) {
      const Bytes good = encode(*codec, gaussian(count));
      REQUIRE_FALSE(refused(*codec, good, count));
      for (std::size_t size = 0; size < good.size(); ++size) {
        REQUIRE(
            refused(*codec, Bytes(good.begin(), good.begin() + static_cast<long>(size)), count));
      }
      for (std::size_t extra = 1; extra < 20; ++extra) {
        for (const int fill : {0, 1, 0x80, 0xFF}) {
          Bytes longer = good;
          longer.resize(good.size() + extra, static_cast<std::byte>(fill));
          REQUIRE(refused(*codec, longer, count));
        }
      }
    }
  }
}

TEST_CASE("every single flipped bit is refused or gives finite values", "[fuzz]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : {9u, 300u}) {
      const Bytes good = encode(*codec, gaussian(count));
      for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        Bytes flipped = good;
        flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        const bool wrong = refused(*codec, flipped, count);
        // The positions of all other fields depend on the number of entries.
        if (bit < bits_of_count(*codec, good)) REQUIRE(wrong);
      }
    }
  }
}

TEST_CASE("ten thousand damaged payloads", "[fuzz]") {
  RandomNumbers random;
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (int round = 0; round < 10'000; ++round) {
      const std::size_t count = kCounts[1 + random(kCounts.size() - 2)];
      Bytes payload = encode(*codec, gaussian(count, 1, 1 + random(50)));
      // Damage after the entry count passes more checks than damage to it.
      const std::size_t from = random(2) * bits_of_count(*codec, payload) / 8;
      for (std::size_t flips = 1 + random(4); flips > 0; --flips) {
        payload[from + random(payload.size() - from)] ^= static_cast<std::byte>(1 + random(255));
      }
      refused(*codec, payload, count);
    }
  }
}

TEST_CASE("malformed heads: any entry count with any parameter", "[fuzz]") {
  const auto codec = make_compressor("topk");
  for (const int k : {0, 1, 2, 49, 50, 51, 99, 100, 101, 127, 128, 255}) {
    for (unsigned form = 0; form < 256; ++form) {
      for (const std::size_t size : {3u, 4u, 5u, 6u, 13u, 64u, 400u, 500u}) {
        for (const int fill : {0, 0x11, 0x80, 0xFF}) {
          for (const int rice : {0, 1, 6, 31, 32, 255}) {
            Bytes payload(size, static_cast<std::byte>(fill));
            store(payload.data(), static_cast<std::uint8_t>(k));
            store(payload.data() + 1, static_cast<std::uint8_t>(rice));
            store(payload.data() + 2, static_cast<std::uint8_t>(form));
            refused(*codec, payload, 100);
          }
        }
      }
    }
  }
}
