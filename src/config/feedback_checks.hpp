// SPDX-License-Identifier: Apache-2.0
// Whether error feedback helps a compressor or drives its residual up.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// Whether a run of this config keeps what its compressor does not send by ef14: on demand, or with
/// "auto" where the compressor needs it. Of algorithms that average gradients or differences.
bool has_error_feedback(const RunConfig& config, const codec::Properties& properties);

/// With ef14: refuses compressors that do not allow error feedback. It converges for contractions,
/// E|C(x) - x|^2 < |x|^2 (Karimireddy et al. 2019, assumption A); with a bound of 1 or more, or an
/// unknown one, the residual may grow in every step.
/// @pre all other combinations were checked
/// @throws Error{usage}; `origin` says where the keys stand
void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin);

}  // namespace eqt::config
