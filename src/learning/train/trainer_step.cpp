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
  comm::Communicator& comm = p_.comm;
  comm.set_step(step.own);
  comm.heartbeat("loading of a batch");
  if (p_.timeline != nullptr) p_.timeline->begin_step(step.own + 1);
  inject_fault(comm::Fault::Phase::step, step.own);

  const bool observed = p_.workers == nullptr ? compute_gradient(step, total, record)
                                              : compute_worker_gradients(step, record);
  comm.heartbeat("synchronization", true);
  sync::SyncResult result = [&] {
    const sync::NotedSpan wait(p_.timeline, metrics::Activity::wait);
    return p_.synchronizer.finish();
  }();

  const Stopwatch update;
  comm.heartbeat("update");
  const auto rate =
      static_cast<float>(rate_factor_ * p_.schedule.rate(plan_.position(step.common)));
  {
    const sync::NotedSpan span(p_.timeline, metrics::Activity::update);
    clip_gradient();
    p_.optimizer.step(p_.replica.parameters(), p_.replica.gradient(), rate);
    if (may_go_back()) require_finite_model(step.own);
  }
  record.seconds.update = update.seconds();
  comm.heartbeat("synchronization", true);
  {
    const sync::NotedSpan wait(p_.timeline, metrics::Activity::wait);
    result.add(p_.synchronizer.after_update(rate));
  }
  if (average_) average_->update(p_.replica, step.own);
  comm.heartbeat("records of a step", true);

  record.step = completed(step);
  record.epoch = plan_.epoch_of(step.common) + 1;
  record.learning_rate = static_cast<double>(rate);
  record.seconds.total = total.seconds();
  if (p_.balancer != nullptr) record.samples = p_.balancer->own() * plan_.accumulate;
  const sync::LateExchange* const late = p_.synchronizer.late();
  statistics_.note_step(record, result, late == nullptr || !late->is_under_way());
  if (result.note) p_.sink.write(metrics::NoteRecord{.step = record.step, .text = *result.note});
  for (const metrics::DecisionRecord& decision : result.decisions) p_.sink.write(decision);
  if (result.noise) p_.sink.write(*result.noise);
  if (result.profile) p_.sink.write(*result.profile);
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
bool Trainer::compute_gradient(const StepNumbers& step, const Stopwatch& total,
                               metrics::StepRecord& record) {
  comm::Communicator& comm = p_.comm;
  std::optional<sync::NotedSpan> computing;  // of an earlier batch of the step
  const auto next_batch = [&]() -> const data::Batch& {
    computing.reset();
    const Stopwatch wait;
    const sync::NotedSpan span(p_.timeline, metrics::Activity::data);
    const data::Batch& batch = plan_.emulated ? no_batch_ : p_.batches->next();
    record.seconds.data += wait.seconds();
    comm.heartbeat("forward and backward pass");
    computing.emplace(p_.timeline, metrics::Activity::compute);
    return batch;
  };
  const double sum = accumulation_.run_first(next_batch);
  const data::Batch& batch = next_batch();
  record.seconds.compute = total.seconds() - record.seconds.data;

  const bool observed = p_.observer != nullptr && p_.observer->begin(observed_step(step), batch);
  const Stopwatch compute;
  comm.end_heartbeat();  // asynchronous ranks may wait for a partner here, which has its own
                         // deadline
  computing.reset();
  {
    const sync::NotedSpan waiting(p_.timeline, metrics::Activity::wait);
    if (observed) p_.synchronizer.read_gradient();
    p_.synchronizer.begin(step.own, plan_.epoch_of(step.common));
  }
  comm.heartbeat("forward and backward pass");
  computing.emplace(p_.timeline, metrics::Activity::compute);
  record.loss = accumulation_.run_last(sum, batch, [&](std::size_t slice) {
    if (observed) p_.observer->slice_ready(slice);
    p_.synchronizer.slice_ready(slice);
    comm.heartbeat("backward pass");
  });
  record.seconds.compute += compute.seconds();
  require_finite_loss(step.own, record.loss, comm.rank());
  return observed;
}

/// Computes losses and gradients of all workers: sums the losses and passes the gradients on one by
/// one. Worker 0's gradient is observed, like rank 0's. @return true if it is
bool Trainer::compute_worker_gradients(const StepNumbers& step, metrics::StepRecord& record) {
  comm::Communicator& comm = p_.comm;
  sync::WorkerGradients* const workers = p_.synchronizer.workers();
  EQT_CHECK(workers != nullptr, "workers of an algorithm that cannot be played by one process");
  bool observed = false;
  p_.synchronizer.begin(step.own, plan_.epoch_of(step.common));
  for (Rank worker = 0; worker < p_.workers->count(); ++worker) {
    const Stopwatch whole;
    const double data_before = record.seconds.data;
    comm.heartbeat("loading of a batch");
    p_.workers->select(worker);
    accumulation_.set_weight(plan_.loss_weight(static_cast<std::size_t>(worker)));
    const auto next_batch = [&]() -> const data::Batch& {
      const Stopwatch wait;
      const data::Batch& batch = p_.workers->next_batch();
      record.seconds.data += wait.seconds();
      comm.heartbeat("forward and backward pass");
      return batch;
    };
    const double sum = accumulation_.run_first(next_batch);
    const data::Batch& batch = next_batch();

    const bool shown = worker == 0 && p_.observer != nullptr;
    if (shown) observed = p_.observer->begin(observed_step(step), batch);
    const double loss = accumulation_.run_last(sum, batch, [&](std::size_t slice) {
      if (shown && observed) p_.observer->slice_ready(slice);
      comm.heartbeat("backward pass");
    });
    record.seconds.compute += whole.seconds() - (record.seconds.data - data_before);
    require_finite_loss(step.own, loss, worker);
    record.loss += loss;
    comm.heartbeat("compression of a worker's gradient");
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
