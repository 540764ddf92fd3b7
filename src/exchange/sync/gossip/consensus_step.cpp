// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/consensus_step.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/message.hpp"
#include "core/random.hpp"

namespace eqt::sync {
namespace {

constexpr std::size_t kMaxValues = std::size_t{1} << 22;
constexpr double kNextToNothing = 0.95;  // from this delta on a codec is treated as lossless

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Inner products of values v and the error r = v - q of their message.
struct Products {
  double values = 0;  // |v|^2
  double rest = 0;    // |r|^2
  double both = 0;    // <v, r>
};

/// Normal values, two from each pair of uniform ones (Box and Muller).
void draw_normal(std::uint64_t seed, std::span<float> values) {
  const RandomStream stream(make_key(seed, 0, 0, RandomPurpose::quality));
  constexpr double kTwoPi = 6.283185307179586;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto index = static_cast<std::uint32_t>(i);
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(stream.uniform(index))));
    const double angle = kTwoPi * static_cast<double>(stream.uniform(index + 1));
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

/// Adds up all compressed segments of the plan's first buckets.
Products measure(const codec::Compressor& compressor, std::span<const pipeline::FusionBucket> plan,
                 std::uint64_t seed) {
  Products sums;
  std::size_t measured = 0;
  Workspace workspace;
  std::vector<float> values, rest;
  std::vector<std::byte> payload;
  for (const pipeline::FusionBucket& bucket : plan) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed || measured >= kMaxValues) continue;
      values.resize(segment.count);
      draw_normal(seed + measured, values);
      payload.resize(compressor.max_payload_bytes(segment.count));
      codec::EncodeContext context{
          .key = {.run_seed = seed, .step = 0, .rank = 0, .slice = segment.slice},
          .first_index = segment.first_index,
          .shared_scale = {},
          .density = {},
          .rows = segment.rows};
      if (compressor.properties().shared_scale) {
        context.shared_scale = context.own_scale = compressor.local_scale(values);
      }
      const std::size_t bytes = compressor.encode(values, context, workspace, payload);
      rest = values;
      compressor.decode_add(std::span(payload).first(bytes), -1.0f, workspace, rest);
      sums.values += product(values, values);
      sums.rest += product(rest, rest);
      sums.both += product(values, rest);
      measured += segment.count;
    }
  }
  return sums;
}

/// <q, v> / |q|^2, the best factor for q; 1 unless it is clearly smaller.
double best_scale(const Products& sums) {
  constexpr double kClearly = 0.99;
  const double square = sums.values - 2 * sums.both + sums.rest;
  const double scale = square > 0 ? (sums.values - sums.both) / square : 1;
  return scale < kClearly ? std::max(scale, 0.0) : 1;
}

/// |v - scale q|^2 / |v|^2, where v - scale q = (1 - scale) v + scale r.
double lost_share(const Products& sums, double scale) {
  const double kept = 1 - scale;
  return (kept * kept * sums.values + 2 * kept * scale * sums.both + scale * scale * sums.rest) /
         sums.values;
}

}  // namespace

Quality measure_quality(const codec::Compressor& compressor,
                        std::span<const pipeline::FusionBucket> plan, std::uint64_t seed) {
  if (compressor.properties().lossless) return {};
  const codec::Properties properties = compressor.properties();
  const Products sums = measure(compressor, plan, seed);
  if (!(sums.values > 0)) return {};
  if (properties.unbiased) {
    const double damping = 1 / (1 + sums.rest / sums.values);
    return {.damping = static_cast<float>(damping), .contraction = damping};
  }
  constexpr double kLeast = 1e-3;
  const double damping = properties.random ? best_scale(sums) : 1;
  return {.damping = static_cast<float>(damping),
          .contraction = std::clamp(1 - lost_share(sums, damping), kLeast, 1.0)};
}

double choco_step(double contraction, const codec::Properties& properties, bool symmetric) {
  if (contraction >= kNextToNothing) return 1;
  if (properties.random) return contraction * (1 + contraction * contraction * contraction) / 2;
  const double step = 0.6 * std::pow(contraction, 1.4);
  return symmetric || properties.sparse ? step : step / 4;
}

double squeeze_step(double contraction, const codec::Properties& properties, bool symmetric) {
  if (contraction >= 1) return 1;
  return std::min(0.5, choco_step(contraction, properties, symmetric) / 3);
}

}  // namespace eqt::sync
