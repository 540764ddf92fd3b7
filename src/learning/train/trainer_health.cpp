// SPDX-License-Identifier: Apache-2.0
// The trainer's checks: it stops together with all ranks, rolls back if a rank has diverged, and
// checks parameters and replicas.

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "train/trainer.hpp"

namespace eqt::train {

void Trainer::inject_fault(comm::Fault::Phase phase, StepId step) {
  // A value is damaged only once, so that the fault does not happen again after a rollback.
  if (!plan_.fault || (fault_injected_ && plan_.fault->act == comm::Fault::Act::nan)) return;
  fault_injected_ |= plan_.fault->inject(phase, p_.comm.rank(), step, p_.replica.parameters());
}

/// This rank's report after a step, with the hash only if it is sent.
HealthReport Trainer::report(bool with_hash) {
  HealthReport own;
  own.stop = p_.comm.stop_asked();
  own.diverged = p_.divergence != nullptr && p_.divergence->any();
  if (with_hash && plan_.paranoid && plan_.replicas_equal) own.hash = parameter_hash();
  return own;
}

/// Returns false if all ranks have gone back to an earlier step.
bool Trainer::check_health_after_step(const StepOutcome& outcome) {
  unchecked_seconds_ += outcome.seconds;
  sync::LateExchange* const late = p_.synchronizer.late();
  if (late != nullptr && late->is_under_way()) {  // the communication thread calls MPI
    late->rethrow();
    was_under_way_ = true;
    return true;
  }
  // Where one round follows the other, this may be the only step between them.
  if (std::exchange(was_under_way_, false)) {
    unchecked_seconds_ = 0;
    return check_health_now();
  }
  const HealthReport own = report(health_check_.is_due(outcome.met));
  return act_on(health_check_.after_step(std::exchange(unchecked_seconds_, 0), outcome.met, own));
}

bool Trainer::check_health_now() { return act_on(health_check_.now(report(false))); }

bool Trainer::act_on(const HealthStatus& status) {
  if (status.replicas_differ) compare_replicas();
  if (status.diverged) {
    roll_back(*status.diverged);
    return false;
  }
  if (!status.stop) return true;
  if (p_.checkpointer != nullptr) {
    require_finite_model(done_);
    if (may_go_back()) {
      if (const auto diverged = health_check_.now(report(false)).diverged) {
        roll_back(*diverged);
        return false;
      }
    }
  }
  stop(*status.stop);
}

/// Ends the run on all ranks, after the same step.
void Trainer::stop(Rank told) {
  p_.comm.heartbeat("checkpoint", true);
  std::string saved = "nothing was saved, because the run has no checkpoint folder";
  if (p_.checkpointer != nullptr) {
    p_.checkpointer->save_and_wait(done_);
    saved = "its state is saved, and --resume continues from there";
  }
  p_.comm.end_heartbeat();
  throw comm::AgreedError(
      Kind::interrupted,
      fmt::format("rank {} was told to stop by a signal; the run has ended after "
                  "step {} of {}, {}",
                  told, done_, plan_.total_steps, saved));
}

/// @throws Error{bug} on all ranks unless all have the same parameters
void Trainer::compare_replicas() {
  const auto hashes = p_.comm.allgather(parameter_hash());
  const auto other = std::ranges::find_if(hashes, [&](auto hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  throw comm::AgreedError(
      Kind::bug, fmt::format("after step {}: expected the same parameters on all ranks, found hash "
                             "{:016x} on rank 0 and {:016x} on rank {}; check the memory of that "
                             "machine, and continue with --resume from an earlier checkpoint",
                             done_, hashes[0], *other, other - hashes.begin()));
}

/// After the update: the loss was finite, but the new parameters may not be.
void Trainer::require_finite_model(StepId step) {
  sync::require_finite(p_.replica.layout(), p_.replica.parameters(), 0, "the parameter", step,
                       p_.comm.rank(), p_.divergence);
}

void Trainer::require_finite_loss(StepId step, double loss, Rank rank) {
  if (plan_.emulated || std::isfinite(loss)) return;
  const auto parameter = sync::name_non_finite(p_.replica.layout(), p_.replica.parameters());
  const auto gradient = sync::name_non_finite(p_.replica.layout(), p_.replica.gradient());
  const std::string because = parameter  ? fmt::format(", because {}", *parameter)
                              : gradient ? fmt::format(", and the gradient of {}", *gradient)
                                         : "";
  const std::string sentence = fmt::format(
      "step {}: the loss is {} on rank {}{}; try a smaller optimizer.learning_rate or "
      "a schedule.warmup_epochs",
      step, loss, rank, because);
  if (p_.divergence == nullptr) fail(Kind::diverged, "{}", sentence);
  p_.divergence->found(sentence);
}

/// Fails on all ranks. Each checks its own model to find the rank whose model is not finite.
void Trainer::require_finite_assessment(const Assessment& assessment) {
  if (!assessment.model || std::isfinite(assessment.model->loss_sum)) return;
  p_.comm.agree_after([this] {
    const auto named = sync::name_non_finite(p_.replica.layout(), p_.replica.parameters());
    if (named)
      fail(Kind::diverged, "after step {}: evaluation: the test loss is not finite, because {}",
           done_, *named);
  });
  throw comm::AgreedError(
      Kind::diverged,
      fmt::format(
          "after step {}: evaluation: the test loss is {}, though all parameters are finite; "
          "try a smaller optimizer.learning_rate",
          done_, assessment.model->loss_sum));
}

/// Returns to the newest checkpoint; smaller steps from there may avoid the failure.
void Trainer::roll_back(Rank diverged) {
  const std::string why = p_.comm.broadcast(p_.divergence->sentence(), diverged);
  const StepId from = done_;
  const double factor = rate_factor_ * plan_.rollback_factor;
  const std::uint64_t rollbacks = rollbacks_ + 1;
  p_.divergence->forget();
  if (rollbacks > kMaxRollbacks) {
    throw comm::AgreedError(Kind::diverged,
                            fmt::format("{}; the run went back {} times before", why, rollbacks_));
  }
  const auto done = p_.checkpointer->restore_newest();
  if (!done)
    throw comm::AgreedError(Kind::diverged, why + "; there is no checkpoint to go back to");
  go_to(*done);
  rate_factor_ = factor;
  rollbacks_ = rollbacks;
  p_.sink.write(metrics::NoteRecord{
      .step = from,
      .text = fmt::format("{}; all ranks went back from step {} to step {}, the learning rate is "
                          "{:.4g} of the schedule's from now on (time {} of {} at most)",
                          why, from, *done, factor, rollbacks, kMaxRollbacks),
      .back_to = *done});
}

}  // namespace eqt::train
