// SPDX-License-Identifier: Apache-2.0
#include "model/torch/frozen.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/error.hpp"
#include "core/pattern.hpp"

namespace eqt::model {

SplitParameters split_parameters(const NamedTensors& parameters, std::span<const TiedName> tied,
                                 std::span<const std::string> patterns) {
  const NamedTensors all = with_tied(parameters, tied);
  for (const std::string& pattern : patterns) {
    const auto has_match = [&](const auto& item) { return matches(pattern, item.first); };
    if (std::ranges::any_of(all, has_match)) continue;
    fail(Kind::usage,
         "model.freeze: expected patterns that match the name of a parameter, found \"{}\"; the "
         "names are {} and so on to {}",
         pattern, parameters.front().first, parameters.back().first);
  }
  std::unordered_set<const at::TensorImpl*> matched;
  for (const auto& [name, tensor] : all)
    if (matches_any(patterns, name)) matched.insert(tensor.unsafeGetTensorImpl());
  SplitParameters split;
  for (const auto& [name, tensor] : parameters) {
    if (!matched.contains(tensor.unsafeGetTensorImpl()) && tensor.requires_grad()) {
      split.trained.emplace_back(name, tensor);
      continue;
    }
    at::Tensor handle = tensor;
    handle.set_requires_grad(false);
    split.frozen.emplace_back(name, tensor);
  }
  if (split.trained.empty())
    fail(
        Kind::usage,
        "model.freeze: expected at least one parameter to train, found all {} frozen; freeze fewer",
        parameters.size());
  return split;
}

}  // namespace eqt::model
