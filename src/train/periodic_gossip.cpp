// SPDX-License-Identifier: Apache-2.0
#include "train/periodic_gossip.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::train {
namespace {

class PeriodicGossip final : public Synchronizer {
 public:
  PeriodicGossip(PeriodicGossipParts parts, std::uint64_t local_steps)
      : p_(std::move(parts)), local_steps_(local_steps) {
    EQT_CHECK(local_steps > 0, "neighbours mix every 0 steps");
    if (p_.direction == nullptr) return;
    EQT_CHECK(p_.direction->mixed().empty(), "{} mixes a buffer of its own", p_.direction->name());
    before_ = FlatBuffer(p_.parameters.size());
  }

  void start() override { p_.gossip->start(); }

  void begin(StepId step, std::uint64_t epoch) override {
    step_ = step;
    if (begins_round()) {
      rates_ = 0;
      std::ranges::copy(p_.parameters.first(before_.span().size()), before_.span().begin());
    }
    rounds_ = step / local_steps_;
    if (mixes()) p_.gossip->begin(rounds_, epoch);
  }

  void slice_ready(std::size_t slice) override {
    if (mixes()) p_.gossip->slice_ready(slice);
  }

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return mixes() ? p_.gossip->finish() : SyncResult{};
  }

  SyncResult after_update(float rate) override {
    rates_ += rate;
    if (!mixes()) {
      SyncResult alone;
      alone.rounds = 0;
      return alone;
    }
    SyncResult result = p_.gossip->after_update(rate);
    ++rounds_;
    if (p_.direction != nullptr) p_.direction->observe(before_.span(), p_.parameters, rates_);
    return result;
  }

  SyncResult mix_only(StepId, std::uint64_t epoch) override {
    return p_.gossip->mix_only(rounds_++, epoch);
  }

  void visit_state(StateVisitor& visitor) override {
    double rates = static_cast<double>(rates_);
    visitor.values("round's first model", before_.span(), Across::mean);
    visitor.real("round's rates", rates, Across::same);
    visitor.number("rounds", rounds_, Across::same);
    rates_ = static_cast<float>(rates);
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    visit_in(visitor, "gossip", *p_.gossip);
  }

  double weight() const override { return p_.gossip->weight(); }
  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return p_.gossip->sent_bytes_by_peer();
  }

 private:
  bool begins_round() const { return step_ % local_steps_ == 0; }
  bool mixes() const { return (step_ + 1) % local_steps_ == 0; }

  const PeriodicGossipParts p_;
  const std::uint64_t local_steps_;
  FlatBuffer before_;  // the model at the beginning of the round; empty without a direction
  float rates_ = 0;    // sum of the round's learning rates
  StepId step_ = 0;
  std::uint64_t rounds_ = 0;  // completed
};

}  // namespace

std::unique_ptr<Synchronizer> make_periodic_gossip(PeriodicGossipParts parts,
                                                   std::uint64_t local_steps) {
  return std::make_unique<PeriodicGossip>(std::move(parts), local_steps);
}

}  // namespace eqt::train
