// SPDX-License-Identifier: Apache-2.0
// A rank's model between the thread that trains it and the thread that averages it.

#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "pipeline/plan.hpp"

namespace eqt::gossip {

/// Both threads add their changes, so updates and averages that come at the same time are both
/// kept. It is locked bucket by bucket, for one copy or sum at a time.
class SharedModel {
 public:
  SharedModel(std::span<const pipeline::FusionBucket> plan, std::size_t count);

  /// The model is `values` from now on.
  void reset(std::span<const float> values);
  /// The bucket's values as they are now. @param values bucket.count()
  void read(const pipeline::FusionBucket& bucket, std::span<float> values) const;
  /// model += change, in a bucket.
  void add(const pipeline::FusionBucket& bucket, std::span<const float> change);
  /// Adds what the trainer did to `parameters` since its last call (or the reset), and leaves the
  /// model in them. If nothing else was added since, the model becomes `parameters`, bit for bit.
  void synchronize(std::span<float> parameters);

 private:
  const std::span<const pipeline::FusionBucket> plan_;
  mutable std::mutex mutex_;  // guards what follows
  FlatBuffer model_;
  FlatBuffer last_synchronized_;  // the model as of the last call
  std::vector<char> changed_;     // by bucket: whether add() was there since
};

}  // namespace eqt::gossip
