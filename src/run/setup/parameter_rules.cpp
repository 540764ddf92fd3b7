// SPDX-License-Identifier: Apache-2.0
#include "setup/parameter_rules.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/pattern.hpp"

namespace eqt::setup {
namespace {

using config::ParameterGroup;
using config::ParameterGroups;

void require_matches(const ParameterGroups& groups, const Layout& layout) {
  for (const ParameterGroup& group : groups) {
    if (group.frozen) continue;  // the network itself looks for those
    for (const std::string& pattern : group.names) {
      const auto has_match = [&](const TensorSlice& slice) { return matches(pattern, slice.name); };
      if (std::ranges::any_of(layout, has_match)) continue;
      fail(Kind::usage,
           "optimizer.groups: expected patterns that match the name of a trained parameter, found "
           "\"{}\"; the names are {} and so on to {}",
           pattern, layout.front().name, layout.back().name);
    }
  }
}

/// The first group that matches; null: none does.
const ParameterGroup* group_of(const std::string& name, const ParameterGroups& groups) {
  const auto found = std::ranges::find_if(
      groups, [&](const ParameterGroup& group) { return matches_any(group.names, name); });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> frozen_patterns(const config::RunConfig& config) {
  std::vector<std::string> patterns = config.model.freeze;
  for (const ParameterGroup& group : config.optimizer.groups)
    if (group.frozen) patterns.insert(patterns.end(), group.names.begin(), group.names.end());
  return patterns;
}

optim::UpdateRules update_rules(const config::RunConfig& config, const Layout& layout) {
  const config::RunConfig::Optimizer& optimizer = config.optimizer;
  require_matches(optimizer.groups, layout);
  optim::UpdateRules rules;
  for (const TensorSlice& slice : layout) {
    const ParameterGroup* const group = group_of(slice.name, optimizer.groups);
    const bool decays = optimizer.decay_norms || slice.shape.size() > 1;
    optim::UpdateRule rule = {.begin = slice.offset,
                              .end = slice.offset + slice.count,
                              .rate_factor = 1,
                              .weight_decay = decays ? optimizer.weight_decay : 0};
    if (group != nullptr) {
      rule.rate_factor = static_cast<float>(group->rate_factor);
      rule.weight_decay = group->weight_decay.value_or(rule.weight_decay);
    }
    const bool goes_on = !rules.empty() && rules.back().rate_factor == rule.rate_factor &&
                         rules.back().weight_decay == rule.weight_decay;
    if (goes_on)
      rules.back().end = rule.end;
    else
      rules.push_back(rule);
  }
  if (rules.size() == 1 && rules[0].rate_factor == 1 &&
      rules[0].weight_decay == optimizer.weight_decay)
    rules.clear();
  return rules;
}

}  // namespace eqt::setup
