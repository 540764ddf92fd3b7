// SPDX-License-Identifier: Apache-2.0
#include "train/run_statistics.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace eqt::train {
namespace {

// Step records need a small allreduce; with one per this many seconds progress is current and the
// time negligible.
constexpr double kFlushSeconds = 1.0;
constexpr StepId kStepsBeforeTiming = 4;
constexpr double kMaxUnflushed = 100;

void visit_seconds(StateVisitor& visitor, Across across, metrics::PhaseSeconds& s) {
  auto all = metrics::in_order(s);
  visitor.doubles("seconds", all, across);
  s = metrics::from_order(all);
}

/// NaN means that a value is missing.
void visit_optional(StateVisitor& visitor, std::string_view name, std::optional<double>& value) {
  double shown = value.value_or(std::numeric_limits<double>::quiet_NaN());
  visitor.real(name, shown, Across::same);
  value.reset();
  if (!std::isnan(shown)) value = shown;
}

template <typename Struct, std::size_t kCount>
std::array<double, kCount> values_of(const Struct& from,
                                     const std::array<double Struct::*, kCount>& members) {
  std::array<double, kCount> values{};
  std::ranges::transform(members, values.begin(), [&](auto member) { return from.*member; });
  return values;
}

template <typename Struct, std::size_t kCount>
void set_values(std::span<const double> values, const std::array<double Struct::*, kCount>& members,
                Struct& to) {
  for (std::size_t i = 0; i < kCount; ++i) to.*members[i] = values[i];
}

}  // namespace

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

struct RunStatistics::Lists {
  // All, in the order of checkpoints.
  static constexpr std::array kAll = {
      &Sums::steps,          &Sums::mean_steps,  &Sums::loss,          &Sums::sent_bytes,
      &Sums::received_bytes, &Sums::dense_bytes, &Sums::encoded_bytes, &Sums::encoded_values};
  // Those of one rank, which are added up over ranks. Numbers of steps are known where ranks go in
  // step, and dense bytes follow from them.
  static constexpr std::array kOfStep = {&Sums::loss, &Sums::sent_bytes, &Sums::received_bytes,
                                         &Sums::encoded_bytes, &Sums::encoded_values};
  static constexpr std::array kOfRank = {&Sums::steps,         &Sums::loss,
                                         &Sums::sent_bytes,    &Sums::received_bytes,
                                         &Sums::encoded_bytes, &Sums::encoded_values};
  static constexpr std::array kOfTraffic = {&Sums::sent_bytes, &Sums::received_bytes,
                                            &Sums::encoded_bytes, &Sums::encoded_values};

  struct MeanRow {
    Mean Totals::*mean;
    const char* name;  // in checkpoints
    Across across;
  };
  static constexpr std::array kMeans = {
      MeanRow{&Totals::error, "variance", Across::sum},
      MeanRow{&Totals::error_of_means, "variance of means", Across::same}};
};

void RunStatistics::Sums::operator+=(const Sums& other) {
  for (const auto sum : Lists::kAll) this->*sum += other.*sum;
}

void RunStatistics::Sums::add(const Traffic& traffic) {
  sent_bytes += static_cast<double>(traffic.sent_bytes);
  received_bytes += static_cast<double>(traffic.received_bytes);
  encoded_bytes += static_cast<double>(traffic.encoded_bytes);
  encoded_values += static_cast<double>(traffic.encoded_values);
}

void RunStatistics::Mean::add(const std::optional<double>& value) {
  if (!value) return;
  sum += *value;
  count += 1;
}

void RunStatistics::Mean::operator+=(const Mean& other) {
  sum += other.sum;
  count += other.count;
}

std::optional<double> RunStatistics::Mean::value() const {
  if (count > 0) return sum / count;
  return {};
}

void RunStatistics::Mean::visit_state(StateVisitor& visitor, std::string_view name, Across across) {
  std::array<double, 2> both = {sum, count};
  visitor.doubles(name, both, across);
  sum = both[0];
  count = both[1];
}

void RunStatistics::Totals::operator+=(const Totals& other) {
  sums += other.sums;
  seconds += other.seconds;
  for (const Lists::MeanRow& row : Lists::kMeans) this->*row.mean += other.*row.mean;
}

void RunStatistics::Totals::visit_state(StateVisitor& visitor) {
  auto all = values_of(sums, Lists::kAll);
  visitor.doubles("totals", all, Across::same);
  set_values(all, Lists::kAll, sums);
  for (const Lists::MeanRow& row : Lists::kMeans)
    (this->*row.mean).visit_state(visitor, row.name, row.across);
  visit_seconds(visitor, Across::own, seconds);
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
  epoch_.error.add(result.quantization_variance);
  if (options_.asynchronous) {
    own_rounds_ += result.rounds.value_or(1);
    own_.add(traffic);
    note_own_step(record);
    return;
  }
  Sums sums{.loss = record.loss};
  sums.add(traffic);
  unflushed_.push_back({record, sums, result.rounds.value_or(1)});
  if (result.mean_sketch) sketches_.push_back(*result.mean_sketch);
  if (may_send && unflushed_.size() >= flush_every_)
    flush_steps();  // collective: equal counts on all ranks
}

void RunStatistics::note_own_step(metrics::StepRecord record) {
  own_.steps += 1;
  own_.loss += record.loss;
  // The other ranks' bytes of this epoch are not known yet; estimated as those of this rank.
  record.total_sent_bytes = static_cast<std::uint64_t>(sent_bytes() + ranks() * own_.sent_bytes);
  if (comm_.rank() == 0) sink_.write(record);
}

void RunStatistics::note_wait(const sync::SyncResult& result, double seconds) {
  own_rounds_ += result.rounds.value_or(0);
  own_.add(result.traffic);
  epoch_.seconds += {.encode = result.traffic.encode_seconds,
                     .transfer = seconds,
                     .decode = result.traffic.decode_seconds,
                     .total = seconds};
  epoch_.error.add(result.quantization_variance);
}

/// Sums the steps that each rank has counted.
void RunStatistics::add_up_ranks() {
  const auto mine = values_of(own_, Lists::kOfRank);
  std::array<double, mine.size() + 1> all{};
  std::ranges::copy(mine, all.begin());
  all.back() = own_rounds_;
  comm_.allreduce_sum(all);
  Sums sums;
  set_values(all, Lists::kOfRank, sums);
  sums.mean_steps = sums.steps / comm_.size();
  sums.dense_bytes = all.back() * dense_bytes_of_step() / comm_.size();
  epoch_.sums += sums;
  own_ = {};
  own_rounds_ = 0;
}

void RunStatistics::note_dense_mean(std::size_t count) {
  const double bytes = ring_bytes(static_cast<double>(count));
  epoch_.sums += {.sent_bytes = bytes, .received_bytes = bytes, .dense_bytes = bytes};
}

std::uint64_t RunStatistics::note_rounds(std::uint64_t rounds, const Traffic& traffic) {
  Sums sums;
  sums.add(traffic);
  auto all = values_of(sums, Lists::kOfTraffic);
  comm_.allreduce_sum(all);
  set_values(all, Lists::kOfTraffic, sums);
  sums.dense_bytes = static_cast<double>(rounds) * ring_bytes(static_cast<double>(options_.values));
  epoch_.sums += sums;
  return static_cast<std::uint64_t>(sums.sent_bytes);
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
  reduction_.clear();
  for (const LocalStep& local : unflushed_) {
    const auto values = values_of(local.sums, Lists::kOfStep);
    reduction_.insert(reduction_.end(), values.begin(), values.end());
  }
  for (const sync::MeanSketch& sketch : sketches_)
    reduction_.insert(reduction_.end(), sketch.exact.begin(), sketch.exact.end());
  comm_.allreduce_sum(reduction_);
  std::span<const double> rest = reduction_;

  for (LocalStep& local : unflushed_) {
    Sums& sums = local.sums;
    set_values(rest, Lists::kOfStep, sums);
    rest = rest.subspan(Lists::kOfStep.size());
    sums.steps = ranks();
    sums.mean_steps = 1;
    sums.dense_bytes = std::round(local.rounds * dense_bytes_of_step());
    epoch_.sums += sums;
    metrics::StepRecord& record = local.record;
    record.loss = sums.loss / ranks();
    record.sent_bytes = static_cast<std::uint64_t>(sums.sent_bytes);
    record.received_bytes = static_cast<std::uint64_t>(sums.received_bytes);
    record.dense_bytes = static_cast<std::uint64_t>(sums.dense_bytes);
    record.total_sent_bytes = static_cast<std::uint64_t>(sent_bytes());
    record.total_dense_bytes =
        static_cast<std::uint64_t>(run_.sums.dense_bytes + epoch_.sums.dense_bytes);
    if (comm_.rank() == 0) sink_.write(record);
  }
  note_errors_of_means(rest);
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
    epoch_.error_of_means.add(sketch.relative_error(ranks()));
  }
  sketches_.clear();
}

/// Chooses the interval for all ranks by rank 0's clock.
void RunStatistics::choose_flush_interval(double step_seconds) {
  double steps = std::round(kFlushSeconds / std::max(1e-6, step_seconds));
  comm_.broadcast(std::as_writable_bytes(std::span(&steps, 1)), 0);
  flush_every_ = static_cast<StepId>(std::clamp(steps, 2.0, kMaxUnflushed));
}

/// Adds what an epoch's record says of different replicas; keeps it for the summary.
void RunStatistics::note_assessment(const Assessment& assessment, metrics::EpochRecord& record) {
  if (assessment.averaged_buffers > 0) note_dense_mean(assessment.averaged_buffers);
  if (!assessment.consensus) return;
  note_nodes(assessment.nodes, record);
  record.replicas.averaged = assessment.averaged;
  record.consensus_distance = assessment.consensus->distance;
  record.consensus_distance_relative = assessment.consensus->relative;
  record.evaluation_sent_bytes = assessment.sent_bytes;

  last_.consensus_distance = record.consensus_distance;
  last_.consensus_distance_relative = record.consensus_distance_relative;
  last_.evaluation_sent_bytes =
      last_.evaluation_sent_bytes.value_or(0) + static_cast<double>(assessment.sent_bytes);
  if (!assessment.nodes.empty()) replicas_ = record.replicas;
}

/// Nodes are told by their accuracy and, if it is another, by the task's main metric.
void RunStatistics::note_nodes(const std::vector<model::Evaluation>& nodes,
                               metrics::EpochRecord& record) {
  metrics::ReplicasRecord& replicas = record.replicas;
  for (const model::Evaluation& node : nodes) {
    const std::vector<metrics::MetricRecord> all = options_.measures.of(&node);
    for (const metrics::MetricRecord& metric : all)
      if (metric.name == kAccuracy) replicas.node_test_accuracy.push_back(metric.value);
    if (all.front().name != kAccuracy) replicas.node_test_metric.push_back(all.front().value);
  }
  record.node_test_accuracy_mean = replicas.node_mean();
  record.node_test_accuracy_min = replicas.node_min();
}

/// A network on the test set: what a summary tells of the last one, and the best so far.
void RunStatistics::note_model(const model::Evaluation& evaluation) {
  metrics_ = options_.measures.of(&evaluation);
  for (const metrics::MetricRecord& metric : metrics_) {
    if (metric.name != kAccuracy) continue;
    last_.test_accuracy = metric.value;
    last_.best_test_accuracy = std::max(last_.best_test_accuracy.value_or(0), metric.value);
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
  record.train_loss = last_.train_loss = epoch_.sums.loss / epoch_.sums.steps;
  note_assessment(assessment, record);
  record.metrics = options_.measures.of(nullptr);
  if (assessment.model) {
    note_model(*assessment.model);
    record.metrics = metrics_;
    record.test_accuracy = last_.test_accuracy;
    record.test_loss = assessment.model->loss();
  }
  record.seconds = slowest(epoch_.seconds);
  if (options_.by_rank) record.rank_seconds = of_ranks(epoch_.seconds);
  record.sent_bytes = static_cast<std::uint64_t>(epoch_.sums.sent_bytes);
  record.total_sent_bytes = static_cast<std::uint64_t>(sent_bytes());
  fill(record, epoch_, record.seconds.total);
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
  static_cast<metrics::Figures&>(summary) = last_;
  summary.ranks = ranks();
  constexpr double kRounding = 1e-6;  // thirds of steps do not sum exactly
  summary.steps = static_cast<StepId>(run_.sums.mean_steps + kRounding);
  summary.epochs = epochs_;
  summary.metrics = metrics_;
  summary.best_metric = best_metric_;
  for (const metrics::PhaseRow& phase : metrics::kPhases)
    summary.epoch_seconds.*phase.seconds = slowest_.*phase.seconds / static_cast<double>(epochs_);
  summary.sent_bytes = static_cast<std::uint64_t>(run_.sums.sent_bytes);
  summary.received_bytes = static_cast<std::uint64_t>(run_.sums.received_bytes);
  summary.dense_bytes = static_cast<std::uint64_t>(run_.sums.dense_bytes);
  fill(summary, run_, slowest_.total);
  summary.replicas = replicas_;
  summary.node_test_accuracy_mean = replicas_.node_mean();
  summary.node_test_accuracy_min = replicas_.node_min();
  std::array<double, 1> rss = {peak_rss_mib()};
  comm_.allreduce_max(rss);
  summary.peak_rss_mib = rss[0];
  count_other_bytes(summary);
  return summary;
}

/// Sets the figures that follow from totals. Collective.
/// @param seconds that they took
void RunStatistics::fill(metrics::Figures& figures, const Totals& totals, double seconds) {
  const Sums& sums = totals.sums;
  figures.images_per_second = sums.steps * options_.batch_size / seconds;
  figures.compression_ratio = sums.dense_bytes / sums.sent_bytes;
  figures.bits_per_value = 8 * sums.encoded_bytes / sums.encoded_values;
  std::array<double, 2> both = {totals.error.sum, totals.error.count};
  comm_.allreduce_sum(both);
  figures.quantization_variance = Mean{both[0], both[1]}.value();
  figures.mean_quantization_variance = totals.error_of_means.value();
}

/// Workers send nothing. Bytes before a rollback were sent, too.
void RunStatistics::count_other_bytes(metrics::Summary& summary) {
  if (options_.workers > 0) return;
  const comm::ByteCount& own = comm_.byte_count();
  std::array<double, 2> sums = {static_cast<double>(own.sent_bytes),
                                static_cast<double>(own.estimated_bytes)};
  comm_.allreduce_sum(sums);
  const double noted = run_.sums.sent_bytes - sent_before_start_;
  summary.other_sent_bytes = static_cast<std::uint64_t>(std::max(0.0, sums[0] - noted));
  summary.estimated_sent_bytes = static_cast<std::uint64_t>(sums[1]);
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

void RunStatistics::visit_state(StateVisitor& visitor) {
  if (visitor.restores()) {
    unflushed_.clear();
    sketches_.clear();
    own_ = {};
    own_rounds_ = 0;
  } else {
    flush();
  }
  const double sent_so_far = sent_bytes();
  visit_in(visitor, "epoch", epoch_);
  visit_in(visitor, "closed epochs", run_);
  if (visitor.restores() && sent_so_far == 0) sent_before_start_ = sent_bytes();
  visit_seconds(visitor, Across::same, slowest_);
  // Fresh: other ranks may have saved the state without batches of their own.
  if (options_.own_batches) visitor.real("samples of the epoch", epoch_samples_, Across::fresh);
  visit_results(visitor);
}

void RunStatistics::visit_results(StateVisitor& visitor) {
  visitor.number("epochs", epochs_, Across::same);
  double train_loss = last_.train_loss.value_or(0);
  visitor.real("train loss", train_loss, Across::same);
  last_.train_loss = train_loss;
  visit_optional(visitor, "test accuracy", last_.test_accuracy);
  visit_optional(visitor, "best test accuracy", last_.best_test_accuracy);
  visit_optional(visitor, "consensus distance", last_.consensus_distance);
  visit_optional(visitor, "relative consensus distance", last_.consensus_distance_relative);
  auto bytes = static_cast<std::uint64_t>(last_.evaluation_sent_bytes.value_or(0));
  visitor.number("evaluation sent bytes", bytes, Across::same);
  if (bytes > 0) last_.evaluation_sent_bytes = static_cast<double>(bytes);
  visit_nodes(visitor, "test accuracy of ranks", replicas_.node_test_accuracy);
  visit_metrics(visitor);
}

/// Values of ranks, if there are any.
void RunStatistics::visit_nodes(StateVisitor& visitor, std::string_view name,
                                std::vector<double>& values) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> nodes = values;
  nodes.resize(static_cast<std::size_t>(comm_.size()), kUnknown);
  if (visitor.restores()) std::ranges::fill(nodes, kUnknown);
  visitor.doubles(name, nodes, Across::fresh);
  values.clear();
  if (!std::isnan(nodes[0])) values = std::move(nodes);
}

/// If a task's main metric is the accuracy, that and the best so far say enough: what else was
/// measured is measured again before the run ends, also by a trainer that has no step left.
void RunStatistics::visit_metrics(StateVisitor& visitor) {
  if (metrics_.front().name == kAccuracy) {
    metrics_.front().value = last_.test_accuracy.value_or(metrics_.front().value);
    best_metric_ = last_.best_test_accuracy;
    return;
  }
  std::vector<double> values;
  for (const metrics::MetricRecord& metric : metrics_) values.push_back(metric.value);
  visitor.doubles("test metrics", values, Across::same);
  for (std::size_t i = 0; i < values.size(); ++i) metrics_[i].value = values[i];
  visit_optional(visitor, "best test metric", best_metric_);
  visit_nodes(visitor, "test metric of ranks", replicas_.node_test_metric);
}

/// Returns the seconds of all ranks, the same on every rank.
std::vector<metrics::PhaseSeconds> RunStatistics::of_ranks(const metrics::PhaseSeconds& s) {
  auto mine = metrics::in_order(s);
  std::vector<double> table(mine.size() * static_cast<std::size_t>(comm_.size()));
  std::ranges::copy(mine, table.begin() + std::ssize(mine) * comm_.rank());
  comm_.allreduce_sum(table);
  std::vector<metrics::PhaseSeconds> all;
  for (auto row = table.begin(); row != table.end(); row += std::ssize(mine)) {
    std::copy_n(row, mine.size(), mine.begin());
    all.push_back(metrics::from_order(mine));
  }
  return all;
}

metrics::PhaseSeconds RunStatistics::slowest(const metrics::PhaseSeconds& s) {
  auto all = metrics::in_order(s);
  comm_.allreduce_max(all);
  return metrics::from_order(all);
}

}  // namespace eqt::train
