#include "train/trainer.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "data/partition.hpp"

namespace eqt::train {
namespace {

constexpr std::size_t kTestBatch = 250;

}  // namespace

Trainer::Trainer(const Parts& parts, const Plan& plan)
    : p_(parts),
      plan_(plan),
      ledger_(parts.comm, parts.sink,
              {.batch_size = plan.batch_size,
               .values = parts.replica.gradient().size(),
               .synchronizes = plan.synchronizes,
               .asynchronous = plan.asynchronous}) {}

metrics::Summary Trainer::run() {
  share_initial_state();
  if (plan_.asynchronous) {
    run_asynchronously();
  } else {
    run_in_step();
  }

  metrics::Summary summary = ledger_.summary();
  summary.parameters = p_.replica.parameters().size();
  const std::uint64_t hash = parameter_hash();
  summary.parameter_hash = fmt::format("{:016x}", hash);
  if (plan_.replicas_equal) {
    const auto hashes = p_.comm.allgather(hash);
    summary.replicas_identical = std::ranges::count(hashes, hashes[0]) == std::ssize(hashes);
  }
  summary.wall_seconds = wall_.seconds();
  return summary;
}

void Trainer::run_in_step() {
  for (StepId step = 0; step < plan_.total_steps; ++step) {
    train_step({.own = step, .common = step});
    if (plan_.ends_epoch(step + 1)) finish_epoch(step + 1);
  }
}

/// Fast ranks take more of an epoch's steps than slow ones, but each takes one.
void Trainer::run_asynchronously() {
  const auto ranks = static_cast<std::uint64_t>(p_.comm.size());
  for (StepId own = 0, common = 0; common < plan_.total_steps;) {
    const StepId end = plan_.end_of_epoch(common);
    do {
      train_step({.own = own++, .common = common});
      common = std::min(end, p_.synchronizer.steps_of_all_ranks() / ranks);
    } while (common < end);
    const Stopwatch wait;
    const SyncResult rest = p_.synchronizer.end_epoch();
    ledger_.note_wait(rest, wait.seconds());
    if (rest.note) p_.sink.write(metrics::NoteRecord{.step = end, .text = *rest.note});
    finish_epoch(end);
  }
}

void Trainer::share_initial_state() {
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.parameters()), 0);
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.buffers()), 0);
}

void Trainer::train_step(const StepNumbers& step) {
  metrics::StepRecord record;
  const Stopwatch total;
  p_.comm.set_step(step.own);
  if (plan_.fault) plan_.fault->strike(p_.comm.rank(), step.own, p_.replica.parameters());

  const data::Batch& batch = plan_.emulated ? no_batch_ : p_.batches->next();
  record.seconds.data = total.seconds();

  const Stopwatch compute;
  p_.synchronizer.begin(step.own, plan_.epoch_of(step.common));
  record.loss = p_.replica.forward_backward(
      batch, [this](std::size_t slice) { p_.synchronizer.slice_ready(slice); });
  record.seconds.compute = compute.seconds();
  if (!plan_.emulated && !std::isfinite(record.loss)) {
    fail(Kind::diverged,
         "step {}: the loss is {} on rank {}; try a smaller optimizer.learning_rate or a "
         "schedule.warmup_epochs",
         step.own, record.loss, p_.comm.rank());
  }
  SyncResult result = p_.synchronizer.finish();

  const Stopwatch update;
  const float rate = p_.schedule.rate(step.common);
  p_.optimizer.step(p_.replica.parameters(), p_.replica.gradient(), rate);
  record.seconds.update = update.seconds();
  result.add(p_.synchronizer.after_update(rate));
  if (kParanoid && plan_.replicas_equal) p_.comm.require_same(parameter_hash(), "parameter hash");

  record.step = completed(step);
  record.epoch = plan_.epoch_of(step.common) + 1;
  record.learning_rate = static_cast<double>(rate);
  record.seconds.total = total.seconds();
  ledger_.note_step(record, result);
  if (result.note) p_.sink.write(metrics::NoteRecord{.step = record.step, .text = *result.note});
}

/// What a step's record counts: the mean rank's steps, begun ones included.
StepId Trainer::completed(const StepNumbers& step) {
  if (!plan_.asynchronous) return step.own + 1;
  const auto ranks = static_cast<std::uint64_t>(p_.comm.size());
  const StepId begun = (p_.synchronizer.steps_of_all_ranks() + ranks - 1) / ranks;
  return std::min(begun, plan_.end_of_epoch(step.common));
}

void Trainer::finish_epoch(StepId done) {
  std::optional<model::Evaluation> evaluation;
  if (!plan_.emulated && plan_.evaluates_after(done)) {  // collective: all ranks share the plan
    average_buffers();
    evaluation = evaluate();
  }
  ledger_.close_epoch(plan_.epoch_of(done - 1) + 1, done, evaluation);
}

/// Batch-norm statistics differ between ranks; the evaluated network has their mean. They follow
/// their batches linearly, so averaging now or later gives the same.
void Trainer::average_buffers() {
  const auto buffers = p_.replica.buffers();
  if (!plan_.replicas_equal || buffers.empty() || p_.comm.size() == 1) return;
  p_.comm.allreduce_sum(buffers);
  for (float& value : buffers) value /= static_cast<float>(p_.comm.size());
  ledger_.note_dense_mean(buffers.size());
}

/// Every rank takes its share of the test set; the sums are over all ranks.
model::Evaluation Trainer::evaluate() {
  const data::Range share = data::even_share(p_.test_set->size(), p_.comm.rank(), p_.comm.size());
  std::array<double, 3> sums{};
  std::vector<std::size_t> indices;
  for (std::size_t begin = share.begin; begin < share.end; begin += kTestBatch) {
    indices.resize(std::min(kTestBatch, share.end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    p_.test_set->read(indices, std::nullopt, test_batch_);
    const model::Evaluation part = p_.replica.evaluate(test_batch_);
    sums[0] += part.loss_sum;
    sums[1] += static_cast<double>(part.correct);
    sums[2] += static_cast<double>(part.count);
  }
  p_.comm.allreduce_sum(sums);
  return {.loss_sum = sums[0],
          .correct = static_cast<std::size_t>(sums[1]),
          .count = static_cast<std::size_t>(sums[2])};
}

std::uint64_t Trainer::parameter_hash() {
  const auto parameters = p_.replica.parameters();
  return XXH3_64bits(parameters.data(), parameters.size_bytes());
}

}  // namespace eqt::train
