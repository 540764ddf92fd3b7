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
               .synchronizes = plan.synchronizes}) {}

metrics::Summary Trainer::run() {
  share_initial_state();
  for (StepId step = 0; step < plan_.total_steps; ++step) {
    p_.comm.set_step(step);
    train_step(step);
    if (plan_.ends_epoch(step + 1)) finish_epoch(step + 1);
  }

  metrics::Summary summary = ledger_.summary();
  summary.parameters = p_.replica.parameters().size();
  const std::uint64_t hash = parameter_hash();
  summary.parameter_hash = fmt::format("{:016x}", hash);
  if (plan_.replicas_equal || plan_.ends_equal) {
    const auto hashes = p_.comm.allgather(hash);
    summary.replicas_identical = std::ranges::count(hashes, hashes[0]) == std::ssize(hashes);
  }
  summary.wall_seconds = wall_.seconds();
  return summary;
}

void Trainer::share_initial_state() {
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.parameters()), 0);
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.buffers()), 0);
}

void Trainer::train_step(StepId step) {
  metrics::StepRecord record;
  const Stopwatch total;
  if (plan_.fault) plan_.fault->strike(p_.comm.rank(), step, p_.replica.parameters());

  const data::Batch& batch = plan_.emulated ? no_batch_ : p_.batches->next();
  record.seconds.data = total.seconds();

  const Stopwatch compute;
  p_.synchronizer.begin(step, plan_.epoch_of(step));
  record.loss = p_.replica.forward_backward(
      batch, [this](std::size_t slice) { p_.synchronizer.slice_ready(slice); });
  record.seconds.compute = compute.seconds();
  if (!plan_.emulated && !std::isfinite(record.loss)) {
    fail(Kind::diverged,
         "step {}: the loss is {} on rank {}; try a smaller optimizer.learning_rate or a "
         "schedule.warmup_epochs",
         step, record.loss, p_.comm.rank());
  }
  SyncResult result = p_.synchronizer.finish();

  const Stopwatch update;
  const float rate = p_.schedule.rate(step);
  p_.optimizer.step(p_.replica.parameters(), p_.replica.gradient(), rate);
  record.seconds.update = update.seconds();
  result.add(p_.synchronizer.after_update(rate));
  if (kParanoid && plan_.replicas_equal) p_.comm.require_same(parameter_hash(), "parameter hash");

  record.step = step + 1;
  record.epoch = plan_.epoch_of(step) + 1;
  record.learning_rate = static_cast<double>(rate);
  record.seconds.total = total.seconds();
  ledger_.note_step(record, result);
  if (result.note) p_.sink.write(metrics::NoteRecord{.step = step + 1, .text = *result.note});
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
