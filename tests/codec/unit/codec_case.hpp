// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the codec room: encode and decode in one line, critical sizes, inputs, and
// running a check on every vector target of this machine.

#pragma once

#include <hwy/targets.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::codec::testing {

inline const std::vector<std::size_t> kCounts = {0,  1,  2,  3,   7,   8,   9,
                                                 31, 32, 33, 511, 512, 513, 10007};

using Bytes = std::vector<std::byte>;

inline Bytes encode(const Compressor& codec, std::span<const float> values,
                    const EncodeContext& context = {}) {
  Workspace workspace;
  Bytes payload(codec.max_payload_bytes(values.size()));
  payload.resize(codec.encode(values, context, workspace, payload));
  return payload;
}

inline std::vector<float> decode(const Compressor& codec, std::span<const std::byte> payload,
                                 std::size_t count) {
  Workspace workspace;
  std::vector<float> sum(count, 0.0f);
  codec.decode_add(payload, 1.0f, workspace, sum);
  return sum;
}

/// Normal values by Box and Muller from the project's stream; never zero in practice.
inline std::vector<float> gaussian(std::size_t count, double deviation = 1,
                                   std::uint64_t seed = 1) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double u = 1 - stream.uniform(static_cast<std::uint32_t>(2 * i));
    const double v = stream.uniform(static_cast<std::uint32_t>(2 * i + 1));
    values[i] = static_cast<float>(deviation * std::sqrt(-2 * std::log(u)) *
                                   std::cos(2 * std::numbers::pi * v));
  }
  return values;
}

inline double squared_norm(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += double{v} * v;
  return sum;
}

inline double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <typename Check>
void on_every_target(Check check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    INFO("vector target " << hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

using test::refusal;

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace eqt::codec::testing
