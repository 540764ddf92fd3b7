// Faults on request, so that tests can prove how the job fails. Asked for by EQT_FAULT only.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::train {

struct Fault {
  enum class Act { raise, stall, nan } act = Act::raise;
  Rank rank = 0;
  StepId step = 0;

  /// On the named rank and step: throws Error{bug}, sleeps for good, or poisons a parameter.
  void strike(Rank rank, StepId step, std::span<float> parameters) const;
};

/// Parses "throw:rank=1,step=3" (or stall, nan). @throws Error{usage}
Fault parse_fault(const std::string& text);

}  // namespace eqt::train
