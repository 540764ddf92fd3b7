// Faults on request, so that tests can prove how the job fails. Asked for by EQT_FAULT only.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::train {

struct Fault {
  enum class Act {
    raise,  // throw Error{bug}
    stall,  // sleep for good
    nan,    // poison a parameter
    kill,   // die by SIGKILL
    slip,   // take a fusion bucket for the next step's
  };
  Act act = Act::raise;
  Rank rank = 0;
  StepId step = 0;
  // Strikes as this fusion bucket's mean begins, others being under way, not as the step does.
  std::optional<std::uint32_t> bucket = {};

  /// At the start of a step: acts if rank and step are the named ones and no bucket is named.
  void strike(Rank rank, StepId step, std::span<float> parameters) const;
  /// At the start of a bucket's mean, likewise.
  /// @return the step that the rank takes it for
  StepId strike_in_bucket(Rank rank, StepId step, std::uint32_t bucket) const;
};

/// Parses "throw:rank=1,step=3" or "stall:rank=1,step=3,bucket=2". @throws Error{usage}
Fault parse_fault(const std::string& text);

}  // namespace eqt::train
