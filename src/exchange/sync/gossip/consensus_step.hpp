// SPDX-License-Identifier: Apache-2.0
// The damping of messages, the default consensus step, and the step that a run takes.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codec/compressor.hpp"
#include "pipeline/plan.hpp"

namespace eqt::sync {

struct AlgorithmParts;
struct AlgorithmSettings;

/// The effect of a compressor on Gaussian values in the plan's segments.
struct Quality {
  /// The factor of decoded values q of v: 1 / (1 + relative variance) for unbiased codecs
  /// (Koloskova et al., ICML 2019, section 3.5: any unbiased codec becomes a contraction), the best
  /// <q, v> / |q|^2 if another random codec sends more than v (TernGrad clips), else 1.
  float damping = 1;
  /// delta in E|damping q - v|^2 <= (1 - delta) |v|^2; 1 = lossless.
  double contraction = 1;
};

/// Measured on at most a few million values; a pure function of compressor, plan and seed.
Quality measure_quality(const codec::Compressor& compressor,
                        std::span<const pipeline::FusionBucket> plan, std::uint64_t seed);

/// The default gamma of CHOCO: 1 for codecs with a very small error, else a function of the
/// contraction delta:
/// - codecs that leave out the same values until they grow (the largest, signs): 0.6 delta^1.4,
///   which fits the best values for pure averaging on rings and tori of 8 to 16 ranks (0.02 for the
///   largest 1 % of the values, 0.18 for 10 %, 0.3 for signs). The remaining differences after some
///   messages are harder to compress than the Gaussian values on which delta is measured.
/// - random codecs, whose error differs in every message: delta (1 + delta^3) / 2, which fits the
///   best values for pure averaging on directed rings of 4, 8 and 16 with Gaussian errors (0.05,
///   0.1, 0.2, 0.35, 0.5, 0.65, 0.8 for delta 0.1, 0.2, 0.38, 0.56, 0.71, 0.83, 0.91). On rings of
///   8 twice as much still contracted, if below 1; four times as much did not.
/// - signs over weights that are not symmetric: a quarter. On a directed ring of 8 gamma = 0.16
///   still contracted, 0.32 did not.
/// With these every compressor contracts on both rings of 8 (tests/sync/property).
/// @param contraction in (0, 1]
/// @param symmetric of the mixing matrix
double choco_step(double contraction, const codec::Properties& properties = {},
                  bool symmetric = true);
/// The default gamma of DeepSqueeze: a third of CHOCO's, at most 0.5; 1 without compression.
double squeeze_step(double contraction, const codec::Properties& properties = {},
                    bool symmetric = true);

/// The consensus step gamma of these settings, for a compressor and a graph.
struct ChosenStep {
  float consensus_step = 1;      // the configured or the chosen gamma
  float most_adaptive_step = 1;  // see MixerOptions
  float damping = 1;             // see MixContext
  std::string note = {};         // what was chosen, or a warning
};
/// Collective.
ChosenStep choose_step(const AlgorithmParts& parts, const AlgorithmSettings& settings);

}  // namespace eqt::sync
