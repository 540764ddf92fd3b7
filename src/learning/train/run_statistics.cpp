// SPDX-License-Identifier: Apache-2.0
#include "train/run_statistics.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace eqt::train {
namespace {

// Step records need a small allreduce; with one per this many seconds progress is current and the
// time negligible.
constexpr double kFlushSeconds = 1.0;
constexpr StepId kStepsBeforeTiming = 4;
constexpr double kMaxUnflushed = 100;

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

}  // namespace

void RunStatistics::Totals::operator+=(const Totals& other) {
  steps += other.steps;
  mean_steps += other.mean_steps;
  loss += other.loss;
  seconds += other.seconds;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  dense_bytes += other.dense_bytes;
  encoded_bytes += other.encoded_bytes;
  encoded_values += other.encoded_values;
  variance += other.variance;
  variance_count += other.variance_count;
  mean_variance += other.mean_variance;
  mean_variance_count += other.mean_variance_count;
}

RunStatistics::RunStatistics(comm::Communicator& comm, metrics::Sink& sink,
                             const RunStatisticsOptions& options)
    : comm_(comm), sink_(sink), options_(options), metrics_(options.measures.of(nullptr)) {}

/// Workers count as ranks.
int RunStatistics::ranks() const { return options_.workers > 0 ? options_.workers : comm_.size(); }

void RunStatistics::note_step(metrics::StepRecord record, const sync::SyncResult& result,
                              bool may_send) {
  const Traffic& traffic = result.traffic;
  record.seconds.encode = traffic.encode_seconds;
  record.seconds.transfer = traffic.transfer_seconds;
  record.seconds.decode = traffic.decode_seconds;
  record.sent_bytes = traffic.sent_bytes;
  record.received_bytes = traffic.received_bytes;
  epoch_.seconds += record.seconds;
  batch_ = record.samples;
  epoch_samples_ += static_cast<double>(record.samples);
  if (result.quantization_variance) {
    epoch_.variance += *result.quantization_variance;
    epoch_.variance_count += 1;
  }
  if (options_.asynchronous) {
    own_rounds_ += result.rounds.value_or(1);
    note_own_traffic(result);
    note_own_step(record);
    return;
  }
  unflushed_.push_back(
      {record, traffic.encoded_bytes, traffic.encoded_values, result.rounds.value_or(1)});
  if (result.mean_sketch) sketches_.push_back(*result.mean_sketch);
  if (may_send && unflushed_.size() >= flush_every_)
    flush_steps();  // collective: equal counts on all ranks
}

void RunStatistics::note_own_step(metrics::StepRecord record) {
  own_.steps += 1;
  own_.loss += record.loss;
  // The other ranks' bytes of this epoch are not known yet; estimated as those of this rank.
  record.total_sent_bytes =
      static_cast<std::uint64_t>(run_.sent_bytes + epoch_.sent_bytes + ranks() * own_.sent_bytes);
  if (comm_.rank() == 0) sink_.write(record);
}

void RunStatistics::note_own_traffic(const sync::SyncResult& result) {
  own_.sent_bytes += static_cast<double>(result.traffic.sent_bytes);
  own_.received_bytes += static_cast<double>(result.traffic.received_bytes);
  own_.encoded_bytes += static_cast<double>(result.traffic.encoded_bytes);
  own_.encoded_values += static_cast<double>(result.traffic.encoded_values);
}

void RunStatistics::note_wait(const sync::SyncResult& result, double seconds) {
  own_rounds_ += result.rounds.value_or(0);
  note_own_traffic(result);
  epoch_.seconds += {.encode = result.traffic.encode_seconds,
                     .transfer = seconds,
                     .decode = result.traffic.decode_seconds,
                     .total = seconds};
  if (!result.quantization_variance) return;
  epoch_.variance += *result.quantization_variance;
  epoch_.variance_count += 1;
}

/// Sums the steps that each rank has counted.
void RunStatistics::add_up_ranks() {
  std::array<double, 7> sums = {static_cast<double>(own_.steps),
                                own_.loss,
                                own_.sent_bytes,
                                own_.received_bytes,
                                own_.encoded_bytes,
                                own_.encoded_values,
                                own_rounds_};
  comm_.allreduce_sum(sums);
  own_ = {};
  own_rounds_ = 0;
  epoch_.steps += static_cast<StepId>(sums[0]);
  epoch_.mean_steps += sums[0] / comm_.size();
  epoch_.loss += sums[1];
  epoch_.sent_bytes += sums[2];
  epoch_.received_bytes += sums[3];
  epoch_.encoded_bytes += sums[4];
  epoch_.encoded_values += sums[5];
  epoch_.dense_bytes += sums[6] * dense_bytes_of_step() / comm_.size();
}

void RunStatistics::note_dense_mean(std::size_t count) {
  const double bytes = ring_bytes(static_cast<double>(count));
  epoch_.sent_bytes += bytes;
  epoch_.received_bytes += bytes;
  epoch_.dense_bytes += bytes;
}

std::uint64_t RunStatistics::note_rounds(std::uint64_t rounds, const Traffic& traffic) {
  std::array<double, 4> sums = {
      static_cast<double>(traffic.sent_bytes), static_cast<double>(traffic.received_bytes),
      static_cast<double>(traffic.encoded_bytes), static_cast<double>(traffic.encoded_values)};
  comm_.allreduce_sum(sums);
  epoch_.sent_bytes += sums[0];
  epoch_.received_bytes += sums[1];
  epoch_.encoded_bytes += sums[2];
  epoch_.encoded_values += sums[3];
  epoch_.dense_bytes +=
      static_cast<double>(rounds) * ring_bytes(static_cast<double>(options_.values));
  return static_cast<std::uint64_t>(sums[0]);
}

/// The ring formula: every rank sends 2 * 4d * (n-1)/n bytes.
double RunStatistics::ring_bytes(double values) const { return 8 * values * (ranks() - 1); }

/// The bytes of a step that synchronizes.
double RunStatistics::dense_bytes_of_step() const {
  return options_.synchronizes ? ring_bytes(static_cast<double>(options_.values)) : 0;
}

/// Sums the ranks' step records and writes them.
void RunStatistics::flush_steps() {
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
  for (const sync::MeanSketch& sketch : sketches_)
    reduction_.insert(reduction_.end(), sketch.exact.begin(), sketch.exact.end());
  comm_.allreduce_sum(reduction_);
  note_errors_of_means(std::span<const double>(reduction_).subspan(unflushed_.size() * kColumns));

  const auto count = static_cast<StepId>(ranks());
  for (std::size_t i = 0; i < unflushed_.size(); ++i) {
    const auto sums = std::span<const double>(reduction_).subspan(i * kColumns, kColumns);
    metrics::StepRecord& record = unflushed_[i].record;
    const double dense = std::round(unflushed_[i].rounds * dense_bytes_of_step());
    record.loss = sums[0] / static_cast<double>(count);
    record.sent_bytes = static_cast<std::uint64_t>(sums[1]);
    record.received_bytes = static_cast<std::uint64_t>(sums[2]);
    record.dense_bytes = static_cast<std::uint64_t>(dense);
    epoch_.steps += count;
    epoch_.mean_steps += 1;
    epoch_.loss += sums[0];
    epoch_.sent_bytes += sums[1];
    epoch_.received_bytes += sums[2];
    epoch_.encoded_bytes += sums[3];
    epoch_.encoded_values += sums[4];
    epoch_.dense_bytes += dense;
    record.total_sent_bytes = static_cast<std::uint64_t>(run_.sent_bytes + epoch_.sent_bytes);
    record.total_dense_bytes = static_cast<std::uint64_t>(run_.dense_bytes + epoch_.dense_bytes);
    if (comm_.rank() == 0) sink_.write(record);
  }
  const metrics::StepRecord& last = unflushed_.back().record;
  if (last.step >= kStepsBeforeTiming && flush_every_ == 1) {
    choose_flush_interval(last.seconds.total);
  }
  unflushed_.clear();
}

/// @param sums over ranks, of the sketches one after another
void RunStatistics::note_errors_of_means(std::span<const double> sums) {
  for (sync::MeanSketch& sketch : sketches_) {
    std::ranges::copy(sums.first(sync::MeanSketch::kSums), sketch.exact.begin());
    sums = sums.subspan(sync::MeanSketch::kSums);
    const auto error = sketch.relative_error(ranks());
    if (!error) continue;
    epoch_.mean_variance += *error;
    epoch_.mean_variance_count += 1;
  }
  sketches_.clear();
}

/// Chooses the interval for all ranks by rank 0's clock.
void RunStatistics::choose_flush_interval(double step_seconds) {
  double steps = std::round(kFlushSeconds / std::max(1e-6, step_seconds));
  comm_.broadcast(std::as_writable_bytes(std::span(&steps, 1)), 0);
  flush_every_ = static_cast<StepId>(std::clamp(steps, 2.0, kMaxUnflushed));
}

/// The epoch's record of different replicas; keeps it for the summary.
metrics::ReplicasRecord RunStatistics::note_assessment(const Assessment& assessment) {
  if (assessment.averaged_buffers > 0) note_dense_mean(assessment.averaged_buffers);
  metrics::ReplicasRecord record;
  if (!assessment.consensus) return record;
  note_nodes(assessment.nodes, record);
  record.averaged = assessment.averaged;
  record.consensus_distance = assessment.consensus->distance;
  record.consensus_distance_relative = assessment.consensus->relative;
  record.evaluation_sent_bytes = assessment.sent_bytes;

  const std::uint64_t sent = replicas_.evaluation_sent_bytes.value_or(0) + assessment.sent_bytes;
  if (assessment.nodes.empty()) {
    replicas_.consensus_distance = record.consensus_distance;
    replicas_.consensus_distance_relative = record.consensus_distance_relative;
  } else {
    replicas_ = record;
  }
  replicas_.evaluation_sent_bytes = sent;
  return record;
}

/// Nodes are told by their accuracy and, if it is another, by the task's main metric.
void RunStatistics::note_nodes(const std::vector<model::Evaluation>& nodes,
                               metrics::ReplicasRecord& record) {
  for (const model::Evaluation& node : nodes) {
    const std::vector<metrics::MetricRecord> all = options_.measures.of(&node);
    for (const metrics::MetricRecord& metric : all)
      if (metric.name == kAccuracy) record.node_test_accuracy.push_back(metric.value);
    if (all.front().name != kAccuracy) record.node_test_metric.push_back(all.front().value);
  }
}

/// A network on the test set: what a summary tells of the last one, and the best so far.
void RunStatistics::note_model(const model::Evaluation& evaluation) {
  metrics_ = options_.measures.of(&evaluation);
  for (const metrics::MetricRecord& metric : metrics_) {
    if (metric.name != kAccuracy) continue;
    accuracy_ = metric.value;
    best_accuracy_ = std::max(best_accuracy_.value_or(0), *accuracy_);
  }
  const metrics::MetricRecord& main = metrics_.front();
  if (!std::isnan(main.value) && (!best_metric_ || main.is_better_than(*best_metric_)))
    best_metric_ = main.value;
}

/// Sums and writes all pending records.
void RunStatistics::flush() {
  if (options_.asynchronous) {
    add_up_ranks();
  } else {
    flush_steps();
  }
}

void RunStatistics::close_epoch(std::uint64_t epoch, StepId done, const Assessment& assessment) {
  flush();
  metrics::EpochRecord record;
  record.epoch = epochs_ = epoch;
  record.step = done;
  record.train_loss = train_loss_ = epoch_.loss / static_cast<double>(epoch_.steps);
  record.replicas = note_assessment(assessment);
  record.metrics = options_.measures.of(nullptr);
  if (assessment.model) {
    note_model(*assessment.model);
    record.metrics = metrics_;
    record.test_accuracy = accuracy_;
    record.test_loss = assessment.model->loss();
  }
  record.seconds = slowest(epoch_.seconds);
  if (options_.by_rank) record.rank_seconds = of_ranks(epoch_.seconds);
  record.images_per_second = images_per_second(epoch_.steps, record.seconds.total);
  record.sent_bytes = static_cast<std::uint64_t>(epoch_.sent_bytes);
  record.total_sent_bytes = static_cast<std::uint64_t>(run_.sent_bytes + epoch_.sent_bytes);
  record.compression_ratio = epoch_.compression_ratio();
  record.bits_per_value = epoch_.bits_per_value();
  record.quantization_variance = mean_variance(epoch_);
  record.mean_quantization_variance = epoch_.error_of_means();
  record.replicas_identical = assessment.replicas_identical;
  if (options_.own_batches) record.batches = batches_of_ranks();
  if (comm_.rank() == 0) sink_.write(record);

  slowest_ += record.seconds;
  run_ += epoch_;
  epoch_ = {};
  epoch_samples_ = 0;
}

metrics::Summary RunStatistics::summary() {
  metrics::Summary summary;
  summary.ranks = ranks();
  constexpr double kRounding = 1e-6;  // thirds of steps do not sum exactly
  summary.steps = static_cast<StepId>(run_.mean_steps + kRounding);
  summary.epochs = epochs_;
  summary.train_loss = train_loss_;
  summary.test_accuracy = accuracy_;
  summary.best_test_accuracy = best_accuracy_;
  summary.metrics = metrics_;
  summary.best_metric = best_metric_;
  summary.images_per_second = images_per_second(run_.steps, slowest_.total);
  using Phase = double metrics::PhaseSeconds::*;
  for (const Phase phase : {&metrics::PhaseSeconds::data, &metrics::PhaseSeconds::compute,
                            &metrics::PhaseSeconds::encode, &metrics::PhaseSeconds::transfer,
                            &metrics::PhaseSeconds::decode, &metrics::PhaseSeconds::update,
                            &metrics::PhaseSeconds::total}) {
    summary.epoch_seconds.*phase = slowest_.*phase / static_cast<double>(epochs_);
  }
  summary.sent_bytes = static_cast<std::uint64_t>(run_.sent_bytes);
  summary.received_bytes = static_cast<std::uint64_t>(run_.received_bytes);
  summary.dense_bytes = static_cast<std::uint64_t>(run_.dense_bytes);
  summary.compression_ratio = run_.compression_ratio();
  summary.bits_per_value = run_.bits_per_value();
  summary.quantization_variance = mean_variance(run_);
  summary.mean_quantization_variance = run_.error_of_means();
  summary.replicas = replicas_;
  std::array<double, 1> rss = {peak_rss_mib()};
  comm_.allreduce_max(rss);
  summary.peak_rss_mib = rss[0];
  count_other_bytes(summary);
  return summary;
}

/// Workers send nothing. Bytes before a rollback were sent, too.
void RunStatistics::count_other_bytes(metrics::Summary& summary) {
  if (options_.workers > 0) return;
  const comm::ByteCount& own = comm_.byte_count();
  std::array<double, 2> sums = {static_cast<double>(own.sent_bytes),
                                static_cast<double>(own.estimated_bytes)};
  comm_.allreduce_sum(sums);
  const double noted = run_.sent_bytes - sent_before_start_;
  summary.other_sent_bytes = static_cast<std::uint64_t>(std::max(0.0, sums[0] - noted));
  summary.estimated_sent_bytes = static_cast<std::uint64_t>(sums[1]);
}

/// The mean over the measurements of all ranks.
std::optional<double> RunStatistics::mean_variance(const Totals& totals) {
  std::array<double, 2> sums = {totals.variance, totals.variance_count};
  comm_.allreduce_sum(sums);
  if (sums[1] > 0) return sums[0] / sums[1];
  return {};
}

/// Returns what each rank did in the epoch. Collective.
metrics::BatchesRecord RunStatistics::batches_of_ranks() {
  metrics::BatchesRecord record;
  record.batch_sizes = comm_.allgather(batch_);
  const auto samples = comm_.allgather(static_cast<std::uint64_t>(epoch_samples_));
  const std::vector<metrics::PhaseSeconds> seconds = of_ranks(epoch_.seconds);
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    const metrics::PhaseSeconds& s = seconds[rank];
    record.samples_per_second.push_back(static_cast<double>(samples[rank]) /
                                        (s.data + s.compute + s.update));
    record.idle_share.push_back(s.transfer / s.total);
  }
  return record;
}

double RunStatistics::images_per_second(StepId steps, double seconds) const {
  return static_cast<double>(steps) * options_.batch_size / seconds;
}

}  // namespace eqt::train
