// SPDX-License-Identifier: Apache-2.0
// A rank's memory in rounds of which it may not be a member.

#pragma once

#include <span>

#include "collective/memory.hpp"

namespace eqt::sync {

/// What was not sent stays as it is while the rank sends nothing.
class QuorumMemory final : public collective::GradientMemory {
 public:
  /// Keeps the reference.
  explicit QuorumMemory(collective::GradientMemory& inner) : inner_(inner) {}

  /// Sets whether the rank is a member of the rounds that follow.
  void set_member(bool member) noexcept { member_ = member; }

  void begin() override {
    if (member_) inner_.begin();
  }
  void compensate(const collective::FusionBucket& bucket, std::span<float> gradient) override {
    if (member_) inner_.compensate(bucket, gradient);
  }
  void remember(const collective::FusionBucket& bucket,
                const collective::Contribution& contribution) override {
    if (member_) inner_.remember(bucket, contribution);
  }
  std::span<float> residual() override { return member_ ? inner_.residual() : std::span<float>(); }
  void visit_state(StateVisitor& visitor) override { inner_.visit_state(visitor); }

 private:
  collective::GradientMemory& inner_;
  bool member_ = true;
};

}  // namespace eqt::sync
