#include "train/trainer.hpp"

#include <sys/resource.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "data/partition.hpp"

namespace eqt::train {
namespace {

constexpr std::size_t kTestBatch = 250;
// Step records need a small allreduce; one per this many seconds keeps progress lively and free.
constexpr double kFlushSeconds = 1.0;
constexpr StepId kStepsBeforeTiming = 4;

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

}  // namespace

void Trainer::Totals::operator+=(const Totals& other) {
  steps += other.steps;
  loss += other.loss;
  seconds += other.seconds;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  dense_bytes += other.dense_bytes;
  encoded_bytes += other.encoded_bytes;
  encoded_values += other.encoded_values;
  variance += other.variance;
  variance_count += other.variance_count;
}

Trainer::Trainer(const Parts& parts, const Plan& plan) : p_(parts), plan_(plan) {}

metrics::Summary Trainer::run() {
  share_initial_state();
  for (StepId step = 0; step < plan_.total_steps; ++step) {
    p_.comm.set_step(step);
    train_step(step);
    if (unflushed_.size() >= flush_every_) flush_steps();  // collective: all ranks count alike
    if (plan_.ends_epoch(step + 1)) finish_epoch(step + 1);
  }
  return summarize();
}

void Trainer::train_step(StepId step) {
  metrics::RoomSeconds seconds;
  const Stopwatch total;
  if (plan_.fault) plan_.fault->strike(p_.comm.rank(), step, p_.replica.parameters());

  const data::Batch& batch = p_.batches.next();
  seconds.data = total.seconds();

  const Stopwatch compute;
  p_.synchronizer.begin(step, plan_.epoch_of(step));
  const double loss = p_.replica.forward_backward(
      batch, [this](std::size_t slice) { p_.synchronizer.slice_ready(slice); });
  seconds.compute = compute.seconds();
  if (!std::isfinite(loss)) {
    fail(Kind::diverged,
         "step {}: the loss is {} on rank {}; try a smaller optimizer.learning_rate or a "
         "schedule.warmup_epochs",
         step, loss, p_.comm.rank());
  }
  const SyncResult result = p_.synchronizer.finish();

  const Stopwatch update;
  const float rate = p_.schedule.rate(step);
  p_.optimizer.step(p_.replica.parameters(), p_.replica.gradient(), rate);
  seconds.update = update.seconds();

  seconds.encode = result.traffic.encode_seconds;
  seconds.transfer = result.traffic.transfer_seconds;
  seconds.decode = result.traffic.decode_seconds;
  seconds.total = total.seconds();
  note_step(step, loss, static_cast<double>(rate), seconds, result);
}

void Trainer::share_initial_state() {
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.parameters()), 0);
  p_.comm.broadcast(std::as_writable_bytes(p_.replica.buffers()), 0);
}

void Trainer::note_step(StepId step, double loss, double rate, const metrics::RoomSeconds& seconds,
                        const SyncResult& result) {
  unflushed_.push_back({.record = {.step = step + 1,
                                   .epoch = plan_.epoch_of(step) + 1,
                                   .loss = loss,
                                   .learning_rate = rate,
                                   .seconds = seconds,
                                   .sent_bytes = result.traffic.sent_bytes,
                                   .received_bytes = result.traffic.received_bytes},
                        .encoded_bytes = result.traffic.encoded_bytes,
                        .encoded_values = result.traffic.encoded_values});
  epoch_.seconds += seconds;
  if (result.quantization_variance) {
    epoch_.variance += *result.quantization_variance;
    epoch_.variance_count += 1;
  }
}

/// Adds the ranks' step records up and writes them.
void Trainer::flush_steps() {
  if (unflushed_.empty()) return;
  constexpr std::size_t kColumns = 5;
  reduction_.clear();
  for (const LocalStep& local : unflushed_) {
    reduction_.push_back(local.record.loss);
    reduction_.push_back(static_cast<double>(local.record.sent_bytes));
    reduction_.push_back(static_cast<double>(local.record.received_bytes));
    reduction_.push_back(static_cast<double>(local.encoded_bytes));
    reduction_.push_back(static_cast<double>(local.encoded_values));
  }
  p_.comm.allreduce_sum(reduction_);

  const double ranks = p_.comm.size();
  const double values = static_cast<double>(p_.replica.gradient().size());
  for (std::size_t i = 0; i < unflushed_.size(); ++i) {
    const auto sums = std::span<const double>(reduction_).subspan(i * kColumns, kColumns);
    metrics::StepRecord& record = unflushed_[i].record;
    record.loss = sums[0] / ranks;
    record.sent_bytes = static_cast<std::uint64_t>(sums[1]);
    record.received_bytes = static_cast<std::uint64_t>(sums[2]);
    // The ring formula: every rank sends 2 * 4d * (n-1)/n bytes.
    const double dense = plan_.replicas_equal ? 8 * values * (ranks - 1) : 0;
    record.dense_bytes = static_cast<std::uint64_t>(dense);
    if (p_.comm.rank() == 0) p_.sink.write(record);
    epoch_.steps += 1;
    epoch_.loss += record.loss;
    epoch_.sent_bytes += sums[1];
    epoch_.received_bytes += sums[2];
    epoch_.encoded_bytes += sums[3];
    epoch_.encoded_values += sums[4];
    epoch_.dense_bytes += dense;
  }
  const StepId done = unflushed_.back().record.step;
  if (done >= kStepsBeforeTiming && flush_every_ == 1) {
    double wanted =
        std::round(kFlushSeconds / std::max(1e-6, unflushed_.back().record.seconds.total));
    p_.comm.broadcast(std::as_writable_bytes(std::span(&wanted, 1)), 0);
    flush_every_ = static_cast<StepId>(std::clamp(wanted, 2.0, 100.0));
  }
  unflushed_.clear();
}

void Trainer::finish_epoch(StepId done) {
  flush_steps();
  const bool last = done == plan_.total_steps;
  epochs_done_ = plan_.epoch_of(done - 1) + 1;
  metrics::EpochRecord record;
  const bool evaluates =
      last || (plan_.evaluate_every > 0 && epochs_done_ % plan_.evaluate_every == 0);
  if (evaluates) {
    average_buffers();
    const model::Evaluation evaluation = evaluate();
    const auto count = static_cast<double>(evaluation.count);
    accuracy_ = static_cast<double>(evaluation.correct) / count;
    best_accuracy_ = std::max(best_accuracy_.value_or(0), *accuracy_);
    record.test_accuracy = accuracy_;
    record.test_loss = evaluation.loss_sum / count;
  }
  const double steps = static_cast<double>(epoch_.steps);
  record.epoch = epochs_done_;
  record.step = done;
  record.train_loss = train_loss_ = epoch_.loss / steps;
  record.seconds = slowest(epoch_.seconds);
  record.images_per_second = steps * static_cast<double>(plan_.batch_size) *
                             static_cast<double>(p_.comm.size()) / record.seconds.total;
  record.sent_bytes = static_cast<std::uint64_t>(epoch_.sent_bytes);
  record.compression_ratio = epoch_.dense_bytes / epoch_.sent_bytes;
  record.bits_per_value = 8 * epoch_.encoded_bytes / epoch_.encoded_values;
  std::array<double, 2> variance = {epoch_.variance, epoch_.variance_count};
  p_.comm.allreduce_sum(variance);
  if (variance[1] > 0) record.quantization_variance = variance[0] / variance[1];
  if (p_.comm.rank() == 0) p_.sink.write(record);

  slowest_seconds_ += record.seconds;
  run_ += epoch_;
  epoch_ = {};
}

/// Batch-norm statistics differ between ranks; the evaluated network has their mean. They follow
/// their batches linearly, so averaging now or later gives the same.
void Trainer::average_buffers() {
  const auto buffers = p_.replica.buffers();
  if (!plan_.replicas_equal || buffers.empty() || p_.comm.size() == 1) return;
  p_.comm.allreduce_sum(buffers);
  for (float& value : buffers) value /= static_cast<float>(p_.comm.size());
  const double ring = 8.0 * static_cast<double>(buffers.size()) * (p_.comm.size() - 1);
  epoch_.sent_bytes += ring;
  epoch_.received_bytes += ring;
  epoch_.dense_bytes += ring;
}

/// Every rank takes its share of the test set.
model::Evaluation Trainer::evaluate() {
  const data::Range share = data::even_share(p_.test_set.size(), p_.comm.rank(), p_.comm.size());
  std::array<double, 3> sums{};
  std::vector<std::size_t> indices;
  for (std::size_t begin = share.begin; begin < share.end; begin += kTestBatch) {
    indices.resize(std::min(kTestBatch, share.end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    p_.test_set.read(indices, std::nullopt, test_batch_);
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

metrics::RoomSeconds Trainer::slowest(const metrics::RoomSeconds& s) {
  std::array<double, 7> v = {s.data, s.compute, s.encode, s.transfer, s.decode, s.update, s.total};
  p_.comm.allreduce_max(v);
  return {.data = v[0],
          .compute = v[1],
          .encode = v[2],
          .transfer = v[3],
          .decode = v[4],
          .update = v[5],
          .total = v[6]};
}

metrics::Summary Trainer::summarize() {
  const auto parameters = std::as_bytes(std::span<const float>(p_.replica.parameters()));
  const std::uint64_t hash = XXH3_64bits(parameters.data(), parameters.size());
  const double epochs = static_cast<double>(epochs_done_);
  metrics::Summary summary;
  summary.ranks = p_.comm.size();
  summary.steps = plan_.total_steps;
  summary.epochs = epochs_done_;
  summary.parameters = p_.replica.parameters().size();
  summary.train_loss = train_loss_;
  summary.test_accuracy = accuracy_;
  summary.best_test_accuracy = best_accuracy_;
  summary.images_per_second = static_cast<double>(run_.steps * plan_.batch_size) *
                              static_cast<double>(p_.comm.size()) / slowest_seconds_.total;
  for (double metrics::RoomSeconds::*room :
       {&metrics::RoomSeconds::data, &metrics::RoomSeconds::compute, &metrics::RoomSeconds::encode,
        &metrics::RoomSeconds::transfer, &metrics::RoomSeconds::decode,
        &metrics::RoomSeconds::update, &metrics::RoomSeconds::total}) {
    summary.epoch_seconds.*room = slowest_seconds_.*room / epochs;
  }
  summary.sent_bytes = static_cast<std::uint64_t>(run_.sent_bytes);
  summary.received_bytes = static_cast<std::uint64_t>(run_.received_bytes);
  summary.dense_bytes = static_cast<std::uint64_t>(run_.dense_bytes);
  summary.compression_ratio = run_.dense_bytes / run_.sent_bytes;
  summary.bits_per_value = 8 * run_.encoded_bytes / run_.encoded_values;
  std::array<double, 2> variance = {run_.variance, run_.variance_count};
  p_.comm.allreduce_sum(variance);
  if (variance[1] > 0) summary.quantization_variance = variance[0] / variance[1];
  if (plan_.replicas_equal) summary.replicas_identical = replicas_identical(hash);
  summary.parameter_hash = fmt::format("{:016x}", hash);
  std::array<double, 1> rss = {peak_rss_mib()};
  p_.comm.allreduce_max(rss);
  summary.peak_rss_mib = rss[0];
  summary.wall_seconds = wall_.seconds();
  return summary;
}

bool Trainer::replicas_identical(std::uint64_t hash) {
  const auto hashes = p_.comm.allgather(hash);
  return std::all_of(hashes.begin(), hashes.end(), [&](auto other) { return other == hashes[0]; });
}

}  // namespace eqt::train
