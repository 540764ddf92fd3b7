// SPDX-License-Identifier: Apache-2.0
// Combinations of keys that make no sense; which error feedback helps a compressor or drives its
// residual up.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// Checks every combination; each single value is already valid. Keys that the chosen compressor
/// ignores are no error (sweeps set them for all), except these, which would silently not happen:
/// compressor.coding, compressor.levels, compressor.elasticity, and compressor.norm "max" where the
/// compressor has the L2 norm.
/// @throws Error{usage} naming the keys, and what to set
void check_combinations(const RunConfig& config, const std::string& origin);

/// The first key whose value only the processor computes, as "model.precision \"int8\""; empty if
/// there is none.
std::string processor_only(const RunConfig& config);

/// Keys that would do nothing, and algorithms that do not go with a compressor or a momentum.
/// @param properties of the compressor
/// @throws Error{usage}; `origin` says where the keys stand
void check_synchronization(const RunConfig& config, const codec::Properties& properties,
                           const std::string& origin);

/// Returns whether "auto" means ef14 though the compressor would converge without: where training
/// was measured to end nearer to float32 with it (docs/choosing.md), an elastiquant of one grade
/// whose averaged gradients SGD applies. What a residual would need damping for has none unless it
/// is asked for.
bool gains_by_feedback(const RunConfig& config);

/// Returns what "auto" means: ef14 where the compressor needs error feedback or gains by it, else
/// none; and none where ef14 would keep a residual of 0. This is for algorithms that average
/// gradients or differences.
ErrorFeedback settled_feedback(const RunConfig& config, const codec::Properties& properties);

/// Returns whether parameters of a group have a momentum of their own.
bool any_has_momentum(const ParameterGroups& groups);

/// Returns whether ranks accumulate momentum before they compress: where it is asked for, and by
/// itself with a rate, SGD and allreduce.
bool corrects_momentum(const RunConfig& config, const codec::Properties& properties);

/// Returns whether error feedback needs CompressorOptions::damped: ef14 and ef21 converge for
/// contractions, E|C(x) - x|^2 < |x|^2 (Karimireddy et al. 2019, assumption A; Richtarik et al.
/// 2021, (4)); with a bound of 1 or more, or an unknown one, the residual may grow in every step.
/// @pre config.compressor.damped is false
bool needs_damping(const RunConfig& config);

/// Refuses, with ef14 or ef21, compressors that do not allow error feedback, also contractions of
/// which nothing is known: a plugin has no bound, but its property needs_feedback promises one.
/// Refuses synchronization.feedback_decay where there is no residual of ef14.
/// ef21 also refuses a fixed threshold, and algorithms that do not average gradients; its keys are
/// refused without it.
/// @pre all other combinations were checked
/// @throws Error{usage}; `origin` says where the keys stand
void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin);

}  // namespace eqt::config
