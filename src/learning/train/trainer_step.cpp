// SPDX-License-Identifier: Apache-2.0
// One step of the training loop: the gradient of this rank's batches, or of all workers', its
// synchronization, the update, and what is recorded of it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "core/error.hpp"
#include "core/square_norm.hpp"
#include "train/trainer.hpp"

namespace eqt::train {

Trainer::StepOutcome Trainer::train_step(const StepNumbers& step) {
  metrics::StepRecord record;
  const Stopwatch total;
  p_.comm.set_step(step.own);
  if (p_.timeline != nullptr) p_.timeline->begin_step(step.own + 1);
  enter(phases::kStep, step.own);

  const bool observed = p_.workers == nullptr ? compute_gradient(step, record)
                                              : compute_worker_gradients(step, record);
  enter(phases::kSynchronizing);
  sync::SyncResult result = p_.synchronizer.finish();

  enter(phases::kUpdating);
  const auto rate =
      static_cast<float>(rate_factor_ * p_.schedule.rate(plan_.position(step.common)));
  clip_gradient();
  p_.optimizer.step(p_.replica.parameters(), p_.replica.gradient(), rate);
  if (may_go_back()) require_finite_model(step.own);

  enter(phases::kSynchronizing);
  result.add(p_.synchronizer.after_update(rate));

  enter(phases::kStepRecords);
  record.seconds = phase_.take_seconds();
  if (average_) average_->update(p_.replica, step.own);
  record.step = completed(step);
  record.epoch = plan_.epoch_of(step.common) + 1;
  record.learning_rate = static_cast<double>(rate);
  record.seconds.total = total.seconds();
  if (p_.balancer != nullptr) record.samples = p_.balancer->own() * plan_.accumulate;
  statistics_.note_step(record, result, !messages_under_way());
  write_results(result, record.step);
  if (observed) p_.observer->finish();
  if (p_.balancer != nullptr) balance(record);
  return {.seconds = record.seconds.total, .met = result.rounds != 0.0};
}

/// Returns the step by this rank's own numbers, because it evaluates its own model; the epoch is
/// that of the common steps.
ObservedStep Trainer::observed_step(const StepNumbers& step) const {
  return {.done = step.own + 1,
          .epoch = plan_.epoch_of(step.common) + 1,
          .ends_epoch = plan_.ends_epoch(step.own + 1)};
}

/// Computes loss and gradient of this rank's next batch. @return true if it is observed
bool Trainer::compute_gradient(const StepNumbers& step, metrics::StepRecord& record) {
  const auto next_batch = [&]() -> const data::Batch& {
    enter(phases::kLoading);
    const data::Batch& batch = plan_.emulated ? no_batch_ : p_.batches->next();
    enter(phases::kComputing);
    return batch;
  };
  const double sum = accumulation_.run_first(next_batch);
  const data::Batch& batch = next_batch();

  enter(phases::kObserving);
  const bool observed = p_.observer != nullptr && p_.observer->begin(observed_step(step), batch);
  enter(phases::kBeginning);
  if (observed) p_.synchronizer.read_gradient();
  p_.synchronizer.begin(step.own, plan_.epoch_of(step.common));
  enter(phases::kComputing);
  record.loss = accumulation_.run_last(sum, batch, [&](std::size_t slice) {
    if (observed) p_.observer->slice_ready(slice);
    p_.synchronizer.slice_ready(slice);
    phase_.goes_on("backward pass");
  });
  require_finite_loss(step.own, record.loss, p_.comm.rank());
  return observed;
}

/// Computes losses and gradients of all workers: sums the losses and passes the gradients on one by
/// one. Worker 0's gradient is observed, like rank 0's. @return true if it is
bool Trainer::compute_worker_gradients(const StepNumbers& step, metrics::StepRecord& record) {
  sync::WorkerGradients* const workers = p_.synchronizer.workers();
  EQT_CHECK(workers != nullptr, "workers of an algorithm that cannot be played by one process");
  bool observed = false;
  enter(phases::kSynchronizing);
  p_.synchronizer.begin(step.own, plan_.epoch_of(step.common));
  for (Rank worker = 0; worker < p_.workers->count(); ++worker) {
    enter(phases::kComputing);
    p_.workers->select(worker);
    accumulation_.set_weight(plan_.loss_weight(static_cast<std::size_t>(worker)));
    const auto next_batch = [&]() -> const data::Batch& {
      enter(phases::kLoading);
      const data::Batch& batch = p_.workers->next_batch();
      enter(phases::kComputing);
      return batch;
    };
    const double sum = accumulation_.run_first(next_batch);
    const data::Batch& batch = next_batch();

    const bool shown = worker == 0 && p_.observer != nullptr;
    if (shown) observed = p_.observer->begin(observed_step(step), batch);
    const double loss = accumulation_.run_last(sum, batch, [&](std::size_t slice) {
      if (shown && observed) p_.observer->slice_ready(slice);
      phase_.goes_on("backward pass");
    });
    require_finite_loss(step.own, loss, worker);
    record.loss += loss;
    enter(phases::kWorkerReady);
    workers->worker_ready();
  }
  p_.workers->select(0);
  return observed;
}

/// Scales the gradient down to the norm that the plan allows (R. Pascanu et al., ICML 2013,
/// arXiv:1211.5063, algorithm 1), as torch.nn.utils.clip_grad_norm_ does.
void Trainer::clip_gradient() {
  if (plan_.clip_norm <= 0) return;
  constexpr double kAside = 1e-6;  // of torch
  const std::span<float> gradient = p_.replica.gradient();
  const double scale = plan_.clip_norm / (std::sqrt(square_norm(gradient)) + kAside);
  if (scale >= 1) return;
  for (float& value : gradient) value *= static_cast<float>(scale);
}

/// The steps in a step's record: those of the mean rank, including steps that have begun.
StepId Trainer::completed(const StepNumbers& step) {
  if (!plan_.asynchronous) return step.own + 1;
  const auto ranks = static_cast<std::uint64_t>(p_.comm.size());
  const StepId begun = (pace().steps_of_all_ranks() + ranks - 1) / ranks;
  return std::min(begun, plan_.next_pause(step.common));
}

}  // namespace eqt::train
