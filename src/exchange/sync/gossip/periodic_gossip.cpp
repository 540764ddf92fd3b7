// SPDX-License-Identifier: Apache-2.0
// Rounds of gossip in every few steps, at once or later.

#include "sync/gossip/periodic_gossip.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"

namespace eqt::sync {
namespace {

class PeriodicGossip final : public Synchronizer, private ModelMixing {
 public:
  PeriodicGossip(PeriodicGossipParts parts, const PeriodicGossipPlan& plan)
      : p_(std::move(parts)), plan_(plan) {
    EQT_CHECK(p_.gossip->mixing() != nullptr, "rounds of an algorithm that mixes no models");
    EQT_CHECK(plan.local_steps > 0 && plan.delay <= plan.local_steps,
              "neighbours mix every {} steps, {} late", plan.local_steps, plan.delay);
    if (p_.direction == nullptr) return;
    EQT_CHECK(plan.delay == 0, "a delay with {}", p_.direction->name());
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
    epoch_ = epoch;
    const std::uint64_t ended = step / plan_.local_steps;
    if (plan_.delay > 0) {
      // It does not send after the update, so that the communication thread is idle between the
      // steps. A run that is made longer has mixed its former last round already; rounds of gossip
      // alone at its former end are none of training.
      rounds_ = std::min(rounds_, ended);
      if (begins_round() && ended > rounds_ && !sent_) send(step - 1);
      return;
    }
    rounds_ = ended;
    if (mixes()) p_.gossip->begin(rounds_, epoch);
  }

  void slice_ready(std::size_t slice) override {
    if (mixes_now()) p_.gossip->slice_ready(slice);
  }

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return mixes_now() ? p_.gossip->finish() : SyncResult{};
  }

  SyncResult after_update(float rate) override {
    rates_ += rate;
    if (plan_.delay > 0) return late_update(rate);
    if (!mixes()) return alone();
    SyncResult result = p_.gossip->after_update(rate);
    ++rounds_;
    if (p_.direction != nullptr) p_.direction->observe(before_.span(), p_.parameters, rates_);
    return result;
  }

  void visit_state(StateVisitor& visitor) override {
    double rates = static_cast<double>(rates_);
    visitor.values("round's first model", before_.span(), Across::mean);
    visitor.real("round's rates", rates, Across::same);
    visitor.number("rounds", rounds_, Across::same);
    rates_ = static_cast<float>(rates);
    if (plan_.delay > 0) visit_sent(visitor);
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    visit_in(visitor, "gossip", *p_.gossip);
  }

  LateExchange* late() override { return p_.gossip->late(); }
  ModelMixing* mixing() override { return this; }
  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return p_.gossip->sent_bytes_by_peer();
  }

 private:
  SyncResult mix_only(StepId, std::uint64_t epoch) override {
    return p_.gossip->mixing()->mix_only(rounds_++, epoch);
  }
  double weight() const override { return p_.gossip->mixing()->weight(); }

  bool begins_round() const { return step_ % plan_.local_steps == 0; }
  bool mixes() const { return (step_ + 1) % plan_.local_steps == 0; }
  bool mixes_now() const { return mixes() && plan_.delay == 0; }

  static SyncResult alone() {
    SyncResult result;
    result.rounds = 0;
    return result;
  }

  /// Sends the model at the end of the round that ended with `step`.
  void send(StepId step) {
    p_.gossip->begin(step / plan_.local_steps, epoch_);
    sent_ = step;
  }

  SyncResult merge(float rate) {
    SyncResult result = p_.gossip->after_update(rate);
    result.rounds = 1;
    sent_.reset();
    ++rounds_;
    return result;
  }

  SyncResult late_update(float rate) {
    const bool last = step_ + 1 == plan_.total_steps;
    SyncResult result = alone();
    if (sent_ && (last || step_ == *sent_ + plan_.delay)) result.add(merge(rate));
    if (!last || !mixes()) return result;
    send(step_);
    result.add(merge(rate));
    return result;
  }

  /// With another number of ranks nothing is under way.
  void visit_sent(StateVisitor& visitor) {
    std::array<std::uint64_t, 2> sent = {sent_ ? 1u : 0u, sent_.value_or(0)};
    visitor.numbers("sent", sent, Across::fresh);
    sent_.reset();
    if (sent[0] != 0) sent_ = sent[1];
  }

  const PeriodicGossipParts p_;
  const PeriodicGossipPlan plan_;
  FlatBuffer before_;  // the model at the beginning of the round; empty without a direction
  float rates_ = 0;    // sum of the round's learning rates
  StepId step_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t rounds_ = 0;         // completed
  std::optional<StepId> sent_ = {};  // the step that ended the round that is not applied yet
};

}  // namespace

std::unique_ptr<Synchronizer> make_periodic_gossip(PeriodicGossipParts parts,
                                                   const PeriodicGossipPlan& plan) {
  return std::make_unique<PeriodicGossip>(std::move(parts), plan);
}

}  // namespace eqt::sync
