// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/shared_model.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::sync {

using pipeline::FusionBucket;

SharedModel::SharedModel(std::span<const FusionBucket> plan, std::size_t count)
    : plan_(plan), model_(count), last_synchronized_(count), changed_(plan.size()) {}

void SharedModel::reset(std::span<const float> values) {
  const std::lock_guard lock(mutex_);
  EQT_CHECK(values.size() == model_.span().size(), "{} values for a model of {}", values.size(),
            model_.span().size());
  std::ranges::copy(values, model_.span().begin());
  std::ranges::copy(values, last_synchronized_.span().begin());
  std::ranges::fill(changed_, 0);
}

void SharedModel::read(const FusionBucket& bucket, std::span<float> values) const {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(model_.span().subspan(bucket.begin, bucket.count()), values.begin());
}

void SharedModel::add(const FusionBucket& bucket, std::span<const float> change) {
  const std::lock_guard lock(mutex_);
  const auto model = model_.span().subspan(bucket.begin, bucket.count());
  for (std::size_t i = 0; i < model.size(); ++i) model[i] += change[i];
  changed_[bucket.index] = 1;
}

void SharedModel::synchronize(std::span<float> parameters) {
  for (const FusionBucket& bucket : plan_) {
    const auto mine = parameters.subspan(bucket.begin, bucket.count());
    const std::lock_guard lock(mutex_);
    const auto model = model_.span().subspan(bucket.begin, bucket.count());
    const auto last = last_synchronized_.span().subspan(bucket.begin, bucket.count());
    if (changed_[bucket.index] == 0) {
      std::ranges::copy(mine, model.begin());
      std::ranges::copy(mine, last.begin());
      continue;
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      model[i] += mine[i] - last[i];
      mine[i] = last[i] = model[i];
    }
    changed_[bucket.index] = 0;
  }
}

}  // namespace eqt::sync
