// SPDX-License-Identifier: Apache-2.0
// Rules of an update, checked. Private to this room.

#pragma once

#include <cmath>
#include <cstddef>

#include "core/error.hpp"
#include "optim/optimizer.hpp"

namespace eqt::optim {

/// The rules, or one for all values.
/// @throws Error{usage} for a factor or decay that is out of range
inline UpdateRules rules_for(std::size_t count, double weight_decay, const UpdateRules& rules) {
  if (rules.empty()) return {{0, count, 1, weight_decay}};
  std::size_t at = 0;
  for (const UpdateRule& rule : rules) {
    EQT_CHECK(rule.begin == at && rule.end >= at, "a rule for {} to {} after {}", rule.begin,
              rule.end, at);
    at = rule.end;
    const auto allowed = [](double x) { return x >= 0 && std::isfinite(x); };
    if (!allowed(static_cast<double>(rule.rate_factor)) || !allowed(rule.weight_decay))
      fail(Kind::usage,
           "optimizer.groups: expected finite rate factors and weight decays of at least 0, found "
           "{} and {}",
           rule.rate_factor, rule.weight_decay);
  }
  EQT_CHECK(at == count, "rules for {} of {} values", at, count);
  return rules;
}

}  // namespace eqt::optim
