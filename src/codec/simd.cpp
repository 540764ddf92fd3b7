// SPDX-License-Identifier: Apache-2.0
#include "codec/simd.hpp"

#include <hwy/targets.h>

namespace eqt::codec {

std::string simd_target() {
  // The targets are single bits, the best one lowest.
  const auto supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);
}

}  // namespace eqt::codec
