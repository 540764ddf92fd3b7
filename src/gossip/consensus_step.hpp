// How far to go towards the neighbours.

#pragma once

#include <cstdint>
#include <span>

#include "codec/compressor.hpp"
#include "pipeline/plan.hpp"

namespace eqt::gossip {

/// What a compressor does to Gaussian values in the plan's segments.
struct Quality {
  /// What decoded values are multiplied by: 1 / (1 + relative variance) for unbiased codecs, 1 for
  /// all others (Koloskova et al., ICML 2019, section 3.5: any unbiased codec becomes a
  /// contraction).
  float damping = 1;
  /// delta in E|damping q - v|^2 <= (1 - delta) |v|^2; 1 = lossless.
  double contraction = 1;
};

/// Measured on at most a few million values; a pure function of compressor, plan and seed.
Quality measure_quality(const codec::Compressor& compressor,
                        std::span<const pipeline::FusionBucket> plan, std::uint64_t seed);

/// The default gamma of CHOCO: 1 for codecs that lose next to nothing, else 0.6 delta^1.4, which
/// passes through the values that are best for pure averaging on rings and tori of 8 to 16 ranks
/// (0.02 for the largest 1 % of the values, 0.18 for 10 %, 0.3 for signs).
/// @param contraction in (0, 1]
double choco_step(double contraction);
/// The default gamma of DeepSqueeze: a third of CHOCO's, at most 0.5; 1 without compression.
double squeeze_step(double contraction);

}  // namespace eqt::gossip
