// SPDX-License-Identifier: Apache-2.0
// The consensus step follows from what a compressor keeps of Gaussian values.

#include "sync/gossip/consensus_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/message.hpp"
#include "core/random.hpp"
#include "sync/algorithm_parts.hpp"

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

/// Gamma far above the default: what contracts in pure averaging ends at two to five times it.
constexpr double kFarAbove = 2.5;

/// The largest default gamma with a delay. With it, no late correction gamma (W - I) x of any
/// doubly stochastic W is larger than that of the mean of all models.
constexpr double kMostLateStep = 0.5;

/// Returns true if the weights are symmetric in every step of the topology's period.
bool is_symmetric(const topology::Topology& topology) {
  for (StepId step = 0; step < topology.period(); ++step)
    if (!topology.at(step).is_symmetric()) return false;
  return true;
}

/// The default gamma of an algorithm for a compressor of this contraction.
double default_step(const AlgorithmRow& algorithm, const AlgorithmSettings& settings,
                    double contraction, const codec::Properties& properties, bool symmetric) {
  const double most = settings.rounds.delays() ? kMostLateStep : 1;
  if (settings.adaptive_step || algorithm.default_step == nullptr) return most;
  return std::min(most, algorithm.default_step(contraction, properties, symmetric));
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

ChosenStep choose_step(const AlgorithmParts& parts, const AlgorithmSettings& settings) {
  const codec::Compressor& compressor = parts.compressor;
  const Quality quality = measure_quality(compressor, parts.buckets, settings.run_seed);
  // Rank 0's, should another machine's arithmetic differ in a last bit.
  std::array<double, 2> shared = {static_cast<double>(quality.damping), quality.contraction};
  parts.comm.broadcast(std::as_writable_bytes(std::span(shared)), 0);
  const bool symmetric = is_symmetric(*parts.topology);
  const double usual =
      default_step(parts.row, settings, shared[1], compressor.properties(), symmetric);
  const double step = settings.consensus_step.value_or(usual);
  ChosenStep chosen{.consensus_step = static_cast<float>(step),
                    .damping = static_cast<float>(shared[0])};
  if (compressor.properties().lossless) return chosen;
  if (!settings.consensus_step) {
    // Whatever the values' size, no step is above one that contracts.
    chosen.most_adaptive_step =
        static_cast<float>(choco_step(shared[1], compressor.properties(), symmetric));
    chosen.note =
        fmt::format("synchronization.consensus_step is {:.3g}: {} keeps {:.3g} of what it is given",
                    step, codec::codec_name(compressor.id()), shared[1]);
  } else if (step > kFarAbove * usual) {
    chosen.note = fmt::format(
        "synchronization.consensus_step {:.3g} may not contract with {}, which keeps {:.3g} of "
        "what it is given; \"auto\" would take {:.3g}",
        step, codec::codec_name(compressor.id()), shared[1], usual);
  }
  return chosen;
}

}  // namespace eqt::sync
