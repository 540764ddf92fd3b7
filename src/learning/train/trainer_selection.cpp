// SPDX-License-Identifier: Apache-2.0
// The trainer's evaluations: of which weights, which ones are kept, and when they end the run.

#include <fmt/format.h>

#include <cmath>

#include "train/trainer.hpp"

namespace eqt::train {

/// Assesses the model that the run would leave now.
Assessment Trainer::assess() {
  Assessment assessment;
  if (!plan_.emulated) {  // collective: all ranks share the plan
    if (average_) average_->exchange_with(p_.replica);
    assessment = evaluator_.assess(plan_.evaluates_after(done_), model_weight());
    select(assessment);
    if (average_) average_->exchange_with(p_.replica);
  }
  if (plan_.replicas_equal && !assessment.abandoned) assessment.replicas_identical = true;
  return assessment;
}

/// Keeps the weights of the best evaluation and decides whether to stop: the same on all ranks.
void Trainer::select(const Assessment& assessment) {
  if (!assessment.model || !std::isfinite(assessment.model->loss_sum)) return;
  const std::uint64_t epoch = plan_.epoch_of(done_ - 1) + 1;
  const Selection::Verdict verdict =
      selection_.note(epoch, score_of(plan_.measures, *assessment.model));
  if (verdict.is_best && plan_.keeps_best) keep_best();
  if (!verdict.stop || done_ == plan_.total_steps) return;
  plan_.total_steps = done_;
  plan_.ends_equal = false;  // an average that was due later is not made
  if (p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = done_,
      .text =
          fmt::format("stopped after epoch {}: {} epochs without a better test result than that "
                      "of epoch {}",
                      epoch, epoch - selection_.best_epoch(), selection_.best_epoch())});
}

void Trainer::keep_best() {
  p_.comm.heartbeat("writing of the best weights", true);
  evaluator_.with_result([&] {
    if (p_.comm.rank() == 0) p_.replica.save_weights(p_.best_weights);
  });
  p_.comm.heartbeat("evaluation", true);
}

}  // namespace eqt::train
