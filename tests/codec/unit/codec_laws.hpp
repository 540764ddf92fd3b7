// SPDX-License-Identifier: Apache-2.0
// Laws of all codecs that encode a message as a whole; each family's tests use them.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/unit/codec_case.hpp"

namespace eqt::codec::testing {

using Codecs = std::vector<std::unique_ptr<Compressor>>;
/// The context with which a rank encodes `count` values.
using ContextOf = std::function<EncodeContext(std::size_t count, std::uint32_t rank)>;

/// Another rank gets other bytes exactly if the codec is random.
inline void check_draws_of_ranks(const Codecs& codecs, const ContextOf& context) {
  const auto values = gaussian(10007, 1e-3);
  const std::size_t count = values.size();
  for (const auto& codec : codecs) {
    INFO(codec_name(codec->id()));
    const bool same =
        encode(*codec, values, context(count, 0)) == encode(*codec, values, context(count, 1));
    REQUIRE(same == !codec->properties().random);
  }
}

/// Decoding adds scale times the value; bytes and sums are the same on every target.
inline void check_scaled_addition(const Codecs& codecs, const std::vector<std::size_t>& counts,
                                  const ContextOf& context) {
  for (const auto& codec : codecs) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : counts) {
      const auto values = gaussian(count, 0.1, count);
      const Bytes payload = encode(*codec, values, context(count, 0));
      const auto decoded = decode(*codec, payload, count);
      const auto start = gaussian(count, 1, 99);
      auto expected = start;
      for (std::size_t i = 0; i < count; ++i) expected[i] += 0.3f * decoded[i];
      on_every_target([&] {
        REQUIRE(encode(*codec, values, context(count, 0)) == payload);
        auto sum = start;
        Workspace workspace;
        codec->decode_add(payload, 0.3f, workspace, sum);
        REQUIRE(same_bits(sum, expected));
      });
    }
  }
}

/// Payloads may begin at any address.
inline void check_addresses(const Codecs& codecs, const ContextOf& context) {
  const auto values = gaussian(1001, 0.1);
  const EncodeContext own = context(values.size(), 0);
  for (const auto& codec : codecs) {
    INFO(codec_name(codec->id()));
    const Bytes aligned = encode(*codec, values, own);
    for (std::size_t shift = 1; shift < 8; ++shift) {
      Bytes memory(shift + codec->max_payload_bytes(values.size()));
      Workspace workspace;
      const auto payload = std::span(memory).subspan(shift);
      const std::size_t bytes = codec->encode(values, own, workspace, payload);
      REQUIRE(std::equal(aligned.begin(), aligned.end(), payload.begin(),
                         payload.begin() + static_cast<std::ptrdiff_t>(bytes)));
      REQUIRE(same_bits(decode(*codec, payload.first(bytes), values.size()),
                        decode(*codec, aligned, values.size())));
    }
  }
}

/// Values that are not finite become an error that names their index.
inline void check_values_not_finite(const Codecs& codecs, const std::vector<std::size_t>& counts,
                                    const ContextOf& context) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& codec : codecs) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : counts) {
      if (count == 0) continue;
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          auto values = gaussian(count);
          values[i] = bad;
          const auto message =
              refusal(Kind::diverged, [&] { encode(*codec, values, context(count, 0)); });
          REQUIRE(contains(message, "index " + std::to_string(i)));
        }
      }
    }
  }
}

/// Damages a payload as a network or memory could. @param draw a random number below its argument
template <typename Draw>
void damage(Bytes& payload, Draw draw) {
  switch (draw(4)) {
    case 0:
      payload.resize(draw(payload.size()));
      break;
    case 1:
      for (std::size_t extra = 1 + draw(9); extra > 0; --extra)
        payload.push_back(std::byte(draw(256)));
      break;
    case 2:
      for (auto& byte : payload) byte = static_cast<std::byte>(draw(256));
      break;
    default:
      payload[draw(payload.size())] ^= static_cast<std::byte>(1 + draw(255));
  }
}

/// Ten thousand malformed payloads: a wire error or finite values.
inline void check_malformed(const Codecs& codecs, std::uint64_t seed, const ContextOf& context) {
  const RandomStream stream({seed, 0, 0, 0});
  std::uint32_t next = 0;
  const auto draw = [&](std::size_t bound) {
    return static_cast<std::size_t>(stream.bounded(next++, bound));
  };
  for (const auto& codec : codecs) {
    INFO(codec_name(codec->id()));
    int rejected = 0;
    for (int round = 0; round < 10000; ++round) {
      const std::size_t count = kCounts[1 + draw(kCounts.size() - 2)];
      EncodeContext own = context(count, 0);
      own.rows *= draw(2);  // a matrix, or none
      Bytes payload = encode(*codec, gaussian(count, 1, 1 + draw(50)), own);
      damage(payload, draw);
      // An exact allocation, so that a sanitizer sees any access outside it.
      const Bytes exact(payload);
      std::vector<float> sum(count, 0.0f);
      Workspace workspace;
      try {
        codec->decode_add(exact, 1.0f, workspace, sum);
        for (const float v : sum) REQUIRE(std::isfinite(v));
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::wire);
        ++rejected;
      }
    }
    REQUIRE(rejected > 3000);  // every truncation and extension, at the least
  }
}

}  // namespace eqt::codec::testing
