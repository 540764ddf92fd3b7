// SPDX-License-Identifier: Apache-2.0
// Runs a piece of a test on every instruction set that this machine has.

#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace eqt::test {

/// Calls f once per target, the portable one (mask 0) included; restores the choice afterwards.
template <typename F>
void for_each_simd_target(F f) {
  struct Restore {
    ~Restore() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }
  } restore;
  std::int64_t left = hwy::SupportedTargets();
  while (true) {
    const std::int64_t target = left & -left;
    hwy::GetChosenTarget().Update(target);
    INFO("target " << (target == 0 ? std::string("portable") : hwy::TargetName(target)));
    f();
    if (target == 0) return;
    left &= left - 1;
  }
}

}  // namespace eqt::test
