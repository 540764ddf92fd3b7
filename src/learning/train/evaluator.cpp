// SPDX-License-Identifier: Apache-2.0
#include "train/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace eqt::train {
namespace {

void average(comm::Communicator& comm, std::span<float> values) {
  comm.allreduce_sum(values);
  for (float& value : values) value /= static_cast<float>(comm.size());
}

}  // namespace

Evaluator::Evaluator(comm::Communicator& comm, model::Replica& replica,
                     const data::Dataset* test_set, Replicas replicas, Workers* workers,
                     std::size_t sums)
    : comm_(comm),
      replica_(replica),
      test_set_(test_set),
      replicas_(replicas),
      workers_(workers),
      sums_(sums) {}

/// Returns how many numbers stand for an evaluation where evaluations are added.
std::size_t Evaluator::columns() const { return 2 + sums_; }

/// A rank without samples leaves zeros.
void Evaluator::write_columns(const model::Evaluation& e, std::span<double> columns) const {
  EQT_CHECK(e.sums.size() <= sums_, "{} sums of an evaluation, {} expected", e.sums.size(), sums_);
  columns[0] = e.loss_sum;
  columns[1] = static_cast<double>(e.count);
  std::ranges::copy(e.sums, columns.subspan(2).begin());
}

model::Evaluation Evaluator::evaluation_of(std::span<const double> columns) const {
  const auto sums = columns.subspan(2, sums_);
  return {.loss_sum = columns[0],
          .count = static_cast<std::size_t>(columns[1]),
          .sums = std::vector<double>(sums.begin(), sums.end())};
}

model::Evaluation Evaluator::sum_over_ranks(const model::Evaluation& own) {
  std::vector<double> sums(columns() + 1);
  write_columns(own, sums);
  sums.back() = abandoned_ ? 1 : 0;
  comm_.allreduce_sum(sums);
  abandoned_ = sums.back() > 0;
  return evaluation_of(sums);
}

std::vector<model::Evaluation> Evaluator::gather(const model::Evaluation& own) {
  const std::size_t width = columns(), numbers = width * static_cast<std::size_t>(comm_.size());
  std::vector<double> table(numbers + 1);
  write_columns(own,
                std::span(table).subspan(static_cast<std::size_t>(comm_.rank()) * width, width));
  table[numbers] = abandoned_ ? 1 : 0;
  comm_.allreduce_sum(table);
  abandoned_ = table[numbers] > 0;
  std::vector<model::Evaluation> all;
  for (std::size_t i = 0; i < numbers; i += width)
    all.push_back(evaluation_of(std::span<const double>(table).subspan(i, width)));
  return all;
}

Assessment Evaluator::assess(bool on_test_set, double weight) {
  Assessment result;
  abandoned_ = false;
  evaluated_ = 0;
  if (replicas_ == Replicas::equal) {
    if (on_test_set) assess_equal(result);
    return result;
  }
  const std::uint64_t before = comm_.byte_count().sent_bytes;
  assess_different(on_test_set, weight, result);
  const auto sent = comm_.allgather(comm_.byte_count().sent_bytes - before);
  result.sent_bytes = std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  return result;
}

/// Batch-norm statistics differ between ranks; the evaluated network has their mean.
void Evaluator::assess_equal(Assessment& result) {
  if (form_mean_buffers()) result.averaged_buffers = mean_buffers_.span().size();
  exchange_with_mean();
  result.model = sum_over_ranks(workers_ != nullptr ? evaluate_shares() : evaluate(share()));
  exchange_with_mean();
  if (abandoned_) abandon(result);
}

/// Equal replicas: the buffers' weighted mean. Returns false if there is nothing to average.
bool Evaluator::form_mean_buffers() {
  const auto own = replica_.buffers();
  const int ranks = workers_ != nullptr ? workers_->count() : comm_.size();
  if (own.empty() || ranks == 1) return false;
  if (mean_buffers_.span().empty()) mean_buffers_ = FlatBuffer(own.size());
  const auto mean = mean_buffers_.span();
  if (workers_ != nullptr) {
    workers_->mean_of_buffers(mean, buffer_weights_);
    replica_.keep_constants(mean);
    return true;
  }
  std::ranges::copy(own, mean.begin());
  if (!buffer_weights_.empty() && buffer_weights_.front() != 1)
    for (float& value : mean) value *= static_cast<float>(buffer_weights_.front());
  average(comm_, mean);
  replica_.keep_constants(mean);
  return true;
}

/// All workers' shares, in the batches that ranks would use.
model::Evaluation Evaluator::evaluate_shares() {
  model::Evaluation sums;
  for (Rank w = 0; w < workers_->count(); ++w)
    sums += evaluate(data::even_share(test_set_->size(), w, workers_->count()));
  return sums;
}

void Evaluator::assess_different(bool on_test_set, double weight, Assessment& result) {
  model::Evaluation own_share;
  if (on_test_set) {
    own_share = evaluate(share());
    result.nodes = gather(evaluate_all(own_share));
  }
  if (abandoned_) return abandon(result);
  form_mean(weight);
  result.consensus = consensus();
  if (!on_test_set) return;
  result.averaged = replicas_ == Replicas::mixed;
  if (result.averaged) {
    exchange_with_mean();
    own_share = evaluate(share());
    exchange_with_mean();
  }
  result.model = sum_over_ranks(own_share);
  if (abandoned_) abandon(result);
}

void Evaluator::abandon(Assessment& result) {
  result = {};
  result.abandoned = true;
}

/// Between the parameters and mean_.
Consensus Evaluator::consensus() {
  std::array<double, 1> square = {};
  double norm = 0;
  const auto own = replica_.parameters(), mean = mean_.span();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const auto m = static_cast<double>(mean[i]);
    const double difference = static_cast<double>(own[i]) - m;
    square[0] += difference * difference;
    norm += m * m;
  }
  comm_.allreduce_sum(square);
  const double distance = std::sqrt(square[0] / comm_.size());
  return {.distance = distance, .relative = distance / std::sqrt(norm)};
}

void Evaluator::with_result(const std::function<void()>& work) {
  if (replicas_ != Replicas::alone) exchange_with_mean();
  work();
  if (replicas_ != Replicas::alone) exchange_with_mean();
}

void Evaluator::adopt_mean(double weight) {
  if (replicas_ == Replicas::alone) return;
  if (replicas_ == Replicas::mixed) form_mean(weight);
  if (replicas_ == Replicas::equal) form_mean_buffers();
  exchange_with_mean();
}

/// mean_ = 1/n sum_i w_i x_i, and the buffers' plain mean.
void Evaluator::form_mean(double weight) {
  const auto own = replica_.parameters(), own_buffers = replica_.buffers();
  if (mean_.span().empty()) {
    mean_ = FlatBuffer(own.size());
    mean_buffers_ = FlatBuffer(own_buffers.size());
  }
  const auto factor = static_cast<float>(weight);
  std::ranges::transform(own, mean_.span().begin(), [=](float x) { return factor * x; });
  std::ranges::copy(own_buffers, mean_buffers_.span().begin());
  average(comm_, mean_.span());
  average(comm_, mean_buffers_.span());
  replica_.keep_constants(mean_buffers_.span());
}

/// Of equal replicas there is a mean of buffers alone.
void Evaluator::exchange_with_mean() {
  std::ranges::swap_ranges(replica_.parameters(), mean_.span());
  std::ranges::swap_ranges(replica_.buffers(), mean_buffers_.span());
}

data::Range Evaluator::share() const {
  if (own_test_set_) return {0, test_set_->size()};
  return data::even_share(test_set_->size(), comm_.rank(), comm_.size());
}

/// Returns how many samples this rank evaluates: its share if replicas are equal; otherwise all
/// with its own model and, if replicas are mixed, its share with the mean model.
std::size_t Evaluator::samples_of_assessment() const {
  if (replicas_ == Replicas::equal) return share().end - share().begin;
  if (replicas_ == Replicas::alone) return test_set_->size();
  return test_set_->size() + share().end - share().begin;
}

/// The part that was evaluated already, and the parts before and after it.
model::Evaluation Evaluator::evaluate_all(const model::Evaluation& own_share) {
  const data::Range done = share();
  model::Evaluation all = own_share;
  all += evaluate({0, done.begin});
  all += evaluate({done.end, test_set_->size()});
  return all;
}

model::Evaluation Evaluator::evaluate(data::Range samples) {
  model::Evaluation sums;
  if (report_progress_ && evaluated_ == 0) report_progress_(0, samples_of_assessment());
  for (std::size_t begin = samples.begin; begin < samples.end; begin += test_batch_) {
    comm_.heartbeat("evaluation");
    abandoned_ |= comm_.stop_asked();
    if (abandoned_) break;
    indices_.resize(std::min(test_batch_, samples.end - begin));
    std::iota(indices_.begin(), indices_.end(), begin);
    test_set_->read(indices_, std::nullopt, batch_);
    sums += evaluate_batch();
    evaluated_ += batch_.size();
    if (report_progress_) report_progress_(evaluated_, samples_of_assessment());
  }
  comm_.end_heartbeat();
  return sums;
}

void Evaluator::use_views(data::TestViews views, const model::Measures& measures) {
  views_ = model::AveragedViews(views);
  if (views_.differ()) loss_.emplace(model::TaskOptions{.kind = measures.task}, measures.outputs);
}

model::Evaluation Evaluator::evaluate_batch() {
  if (!views_.differ()) return replica_.evaluate(batch_);
  views_.predict(replica_, batch_, outputs_);
  return loss_->evaluate(outputs_.get<float>(), batch_.targets);
}

}  // namespace eqt::train
