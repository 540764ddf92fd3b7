// Whether error feedback helps a compressor or drives its residual up.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// Whether a run of this config keeps what its compressor does not send by ef14: on demand, or with
/// "auto" where the compressor needs it. Of algorithms that average gradients or differences.
bool has_error_feedback(const RunConfig& config, const codec::Properties& properties);

/// With ef14: refuses compressors that cannot be fed back. Error feedback converges for
/// contractions, E|C(x) - x|^2 < |x|^2 (Karimireddy et al. 2019, assumption A): one whose bound is
/// 1 or more, or unknown, may make the residual grow in every step.
/// @pre all other combinations were checked
/// @throws Error{usage}; `origin` says where the keys stand
void check_error_feedback(const RunConfig& config, const codec::Compressor& compressor,
                          const std::string& origin);

}  // namespace eqt::config
