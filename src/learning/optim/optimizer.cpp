// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <cmath>

#include "core/error.hpp"

namespace eqt::optim {

const Catalogue<OptimizerRow>& OptimizerRow::all() {
#define EQT_OPTIMIZER(row) row,
  static const Catalogue<OptimizerRow> rows = {
#include "optim/optimizers.def"
  };
#undef EQT_OPTIMIZER
  return rows;
}

UpdateRules rules_for(std::size_t count, double weight_decay, const UpdateRules& rules) {
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
    const float momentum = rule.momentum.value_or(0);
    if (!(momentum >= 0 && momentum < 1))
      fail(Kind::usage, "optimizer.groups: expected a momentum of at least 0 and below 1, found {}",
           momentum);
  }
  EQT_CHECK(at == count, "rules for {} of {} values", at, count);
  return rules;
}

void check(bool valid, std::string_view key, std::string_view range, double found) {
  if (!valid) fail(Kind::usage, "{} must be {}, found {}", key, range, found);
}

}  // namespace eqt::optim
