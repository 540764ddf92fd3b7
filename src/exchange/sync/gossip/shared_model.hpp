// SPDX-License-Identifier: Apache-2.0
// A rank's model, shared by the thread that trains it and the thread that averages it.

#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "pipeline/plan.hpp"

namespace eqt::sync {

/// Both threads add their changes, so updates and averages at the same time are both kept. Each
/// copy or sum of a bucket takes the lock.
class SharedModel {
 public:
  SharedModel(std::span<const pipeline::FusionBucket> plan, std::size_t count);

  /// The model is `values` from now on.
  void reset(std::span<const float> values);
  /// Copies the bucket's current values. @param values bucket.count()
  void read(const pipeline::FusionBucket& bucket, std::span<float> values) const;
  /// model += change, in a bucket.
  void add(const pipeline::FusionBucket& bucket, std::span<const float> change);
  /// Adds the trainer's changes of `parameters` since the last call (or the reset), and copies the
  /// model into them. If nothing else was added since, the model becomes `parameters`, bit for bit.
  void synchronize(std::span<float> parameters);

 private:
  const std::span<const pipeline::FusionBucket> plan_;
  mutable std::mutex mutex_;  // guards the members below
  FlatBuffer model_;
  FlatBuffer last_synchronized_;  // the model as of the last call
  std::vector<char> changed_;     // by bucket: add() was called since
};

}  // namespace eqt::sync
