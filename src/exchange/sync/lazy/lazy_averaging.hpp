// SPDX-License-Identifier: Apache-2.0
// Gradient descent of which ranks leave out messages that would change little.

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/layout.hpp"
#include "sync/divergence.hpp"
#include "sync/lazy/lazy_mean.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

struct LazyAveragingParts {
  comm::Communicator& comm;
  std::span<const float> parameters;
  std::span<float> gradient;
  const Layout& layout;              // of both
  Divergence* divergence = nullptr;  // gets gradients that are not finite; null: they are errors
};

struct LazyAveragingOptions {
  LazyMeanOptions rule = {};
  float weight_decay = 0;  // part of the gradient that is sent, not of the update
  StepId total_steps = 0;  // the last step's result notes how many messages were sent
  std::optional<comm::Fault> fault = {};  // happens in its step, as bucket 0
};

/// The gradient becomes that of LazyMean in finish(): a rank decides about all of it.
std::unique_ptr<Synchronizer> make_lazy_averaging(const LazyAveragingParts& parts,
                                                  const LazyAveragingOptions& options);

}  // namespace eqt::sync
