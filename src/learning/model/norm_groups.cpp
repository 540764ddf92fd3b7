// SPDX-License-Identifier: Apache-2.0
#include "model/norm_groups.hpp"

#include "core/error.hpp"

namespace eqt::model {

std::int64_t groups_for(const NormalizationRow& kind, int groups, std::int64_t channels) {
  if (kind.groups == 0) {
    if (groups == 0) return 0;
    fail(Kind::usage, "model.norm_groups: expected 0 for {}, which has no groups, found {}",
         kind.name, groups);
  }
  const std::int64_t count = groups == 0 ? kind.groups : groups;
  if (count < 1 || channels % count != 0) {
    fail(Kind::usage,
         "model.normalization {}: expected groups that divide a layer's channels, found {} groups "
         "of {} channels; choose another model.norm_groups, or batchnorm",
         kind.name, count, channels);
  }
  return count;
}

}  // namespace eqt::model
