// `synchronization.collective: "auto"`: which collective is fastest here, by measurement.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config/run_config.hpp"
#include "comm/communicator.hpp"
#include "pipeline/plan.hpp"

namespace eqt::app {

struct Run;

struct MeasuredChoice {
  std::string collective;  // a name that configs accept
  double seconds = 0;      // that one synchronization is expected to take
  std::string note;        // one line: the choice, what it was preferred to, how long it took
};

/// Measures links and the compressor and predicts each compatible collective's time for the plan
/// (collective/cost.hpp). Takes the first in the order of preference that is as fast as the best,
/// up to a tie: by figures so coarse that the next run finds them again, because collectives differ
/// in their bits; of lossless ones by a trial on the plan's first pieces. Takes less than two
/// seconds, unless the links are so slow that a piece alone takes longer. Collective; rank 0's
/// choice holds for all.
///
/// Candidates quantise a value at most twice, as scatter-reduce does, unless the compressor is
/// lossless, and no other one reaches the same bytes with fewer: speed does not buy error. What
/// comes first is choose_collective()'s static choice.
/// @return nothing where there is nothing to choose
/// @pre run.compressor and run.memory are those of the run
std::optional<MeasuredChoice> choose_by_measure(const RunConfig& config, comm::Communicator& comm,
                                                const Run& run,
                                                const std::vector<pipeline::FusionBucket>& plan);

}  // namespace eqt::app
