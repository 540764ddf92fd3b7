// SPDX-License-Identifier: Apache-2.0
// The engine's work on a gradient: it averages every bucket.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collective/collective.hpp"

namespace eqt::collective {

/// All values are ready from the start unless is_ready() is overridden.
class MeanWork : public pipeline::Work {
 public:
  /// Keeps the reference.
  explicit MeanWork(Collective& collective) : collective_(collective) {}

  /// Sets what the next run of the engine averages, in place.
  void prepare(const MeanContext& context, std::span<float> values) {
    context_ = context;
    values_ = values;
  }

  std::size_t slots() const noexcept override { return collective_.slots(); }
  bool is_ready(const FusionBucket&) override { return true; }
  void wait_ready(const FusionBucket&) override {}
  Task start(const FusionBucket& bucket, std::size_t slot) final {
    Mean& mean = means_.at(slot);
    mean.context = context_;
    mean.context.slot = slot;
    mean.result = {};
    before(bucket, mean.context);
    return collective_.mean(bucket, mean.context, values_, mean.result);
  }
  void done(const FusionBucket& bucket, std::size_t slot) final {
    const MeanResult& result = means_.at(slot).result;
    if (result.blocked_seconds > 0) waited(result.blocked_seconds);
    after(bucket, result);
  }
  void waited(double) override {}

 protected:
  /// Called just before a mean starts; may change the context.
  virtual void before(const FusionBucket&, MeanContext&) {}
  /// Called right after it is done.
  virtual void after(const FusionBucket&, const MeanResult&) {}

 private:
  struct Mean {
    MeanContext context;
    MeanResult result;
  };

  Collective& collective_;
  MeanContext context_;
  std::span<float> values_;
  std::array<Mean, pipeline::kMaxSlots> means_;
};

}  // namespace eqt::collective
