// SPDX-License-Identifier: Apache-2.0
// Runs a piece of a test on every instruction set that this machine has.

#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace eqt::test {

/// The target that for_each_simd_target() is at; 0: the portable one.
inline std::int64_t& chosen_target() {
  static std::int64_t target = 0;
  return target;
}

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
    chosen_target() = target;
    INFO("target " << (target == 0 ? std::string("portable") : hwy::TargetName(target)));
    f();
    if (target == 0) return;
    left &= left - 1;
  }
}

}  // namespace eqt::test
