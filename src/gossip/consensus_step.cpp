#include "gossip/consensus_step.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/message.hpp"
#include "core/random.hpp"

namespace eqt::gossip {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 22;
constexpr double kNextToNothing = 0.95;  // delta from which a codec counts as lossless

double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

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

/// The share of |v|^2 that is lost: of |decoded - v|^2 over all compressed segments of the plan's
/// first buckets.
double relative_error(const codec::Compressor& compressor,
                      std::span<const pipeline::FusionBucket> plan, std::uint64_t seed) {
  double error = 0, exact = 0;
  std::size_t measured = 0;
  Workspace workspace;
  std::vector<float> values;
  std::vector<std::byte> payload;
  for (const pipeline::FusionBucket& bucket : plan) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed || measured >= kMostValues) continue;
      values.resize(segment.count);
      draw_normal(seed + measured, values);
      exact += square_norm(values);
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
      compressor.decode_add(std::span(payload).first(bytes), -1.0f, workspace, values);
      error += square_norm(values);
      measured += segment.count;
    }
  }
  return exact > 0 ? error / exact : 0;
}

}  // namespace

Quality measure_quality(const codec::Compressor& compressor,
                        std::span<const pipeline::FusionBucket> plan, std::uint64_t seed) {
  if (compressor.properties().lossless) return {};
  const double lost = relative_error(compressor, plan, seed);
  if (compressor.properties().unbiased) {
    return {.damping = static_cast<float>(1 / (1 + lost)), .contraction = 1 / (1 + lost)};
  }
  constexpr double kLeast = 1e-3;
  return {.damping = 1, .contraction = std::clamp(1 - lost, kLeast, 1.0)};
}

double choco_step(double contraction) {
  if (contraction >= kNextToNothing) return 1;
  return 0.6 * std::pow(contraction, 1.4);
}

double squeeze_step(double contraction) {
  if (contraction >= 1) return 1;
  return std::min(0.5, choco_step(contraction) / 3);
}

}  // namespace eqt::gossip
