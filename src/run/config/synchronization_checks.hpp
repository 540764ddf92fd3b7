// SPDX-License-Identifier: Apache-2.0
// What the keys of the section synchronization allow, without a number of ranks: algorithms,
// rounds, quorums, and which error feedback helps a compressor or drives its residual up.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// Keys that would do nothing, and algorithms that do not go with a compressor or a momentum.
/// @param properties of the compressor
/// @throws Error{usage}; `origin` says where the keys stand
void check_synchronization(const RunConfig& config, const codec::Properties& properties,
                           const std::string& origin);

/// Returns what "auto" means for the compressor: ef14 where it needs error feedback, else none.
/// This is for algorithms that average gradients or differences.
ErrorFeedback settled_feedback(const RunConfig& config, const codec::Properties& properties);

/// Refuses, with ef14 or ef21, compressors that do not allow error feedback. Both converge for
/// contractions, E|C(x) - x|^2 < |x|^2 (Karimireddy et al. 2019, assumption A; Richtarik et al.
/// 2021, (4)); with a bound of 1 or more, or an unknown one, the residual may grow in every step.
/// A plugin has no bound; its property needs_feedback promises a contraction.
/// ef21 also refuses a fixed threshold, and algorithms that do not average gradients; its keys are
/// refused without it.
/// @pre all other combinations were checked
/// @throws Error{usage}; `origin` says where the keys stand
void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin);

}  // namespace eqt::config
