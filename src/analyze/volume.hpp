// `analyze volume`: the bytes that a node would send in a run, as tables count them and as they
// are.

#pragma once

#include "analyze/commands.hpp"

namespace eqt::analyze {

/// Without a model: the published table, each row beside what this program computes and sends.
/// @throws Error{usage}
void run_analyze_volume(const AnalyzeVolumeCommand& command);

}  // namespace eqt::analyze
