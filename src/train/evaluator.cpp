#include "train/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace eqt::train {
namespace {

constexpr std::size_t kColumns = 3;  // of an evaluation, as numbers to add

std::array<double, kColumns> columns_of(const model::Evaluation& e) {
  return {e.loss_sum, static_cast<double>(e.correct), static_cast<double>(e.count)};
}

model::Evaluation evaluation_of(std::span<const double> columns) {
  return {.loss_sum = columns[0],
          .correct = static_cast<std::size_t>(columns[1]),
          .count = static_cast<std::size_t>(columns[2])};
}

void add(const model::Evaluation& part, model::Evaluation& sum) {
  sum.loss_sum += part.loss_sum;
  sum.correct += part.correct;
  sum.count += part.count;
}

model::Evaluation sum_over_ranks(const model::Evaluation& own, comm::Communicator& comm) {
  std::array<double, kColumns> sums = columns_of(own);
  comm.allreduce_sum(sums);
  return evaluation_of(sums);
}

std::vector<model::Evaluation> gather(const model::Evaluation& own, comm::Communicator& comm) {
  std::vector<double> table(kColumns * static_cast<std::size_t>(comm.size()));
  std::ranges::copy(columns_of(own), table.begin() + comm.rank() * std::ptrdiff_t{kColumns});
  comm.allreduce_sum(table);
  std::vector<model::Evaluation> all;
  for (std::size_t i = 0; i < table.size(); i += kColumns) {
    all.push_back(evaluation_of(std::span<const double>(table).subspan(i, kColumns)));
  }
  return all;
}

void average(comm::Communicator& comm, std::span<float> values) {
  comm.allreduce_sum(values);
  for (float& value : values) value /= static_cast<float>(comm.size());
}

}  // namespace

Evaluator::Evaluator(comm::Communicator& comm, model::Replica& replica,
                     const data::Dataset* test_set, Replicas replicas)
    : comm_(comm), replica_(replica), test_set_(test_set), replicas_(replicas) {}

Assessment Evaluator::assess(bool on_test_set, double weight) {
  Assessment result;
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

/// Batch-norm statistics differ between ranks; the evaluated network has their mean. They follow
/// their batches linearly, so averaging now or later gives the same.
void Evaluator::assess_equal(Assessment& result) {
  const auto buffers = replica_.buffers();
  if (!buffers.empty() && comm_.size() > 1) {
    average(comm_, buffers);
    result.averaged_buffers = buffers.size();
  }
  result.model = sum_over_ranks(evaluate(share()), comm_);
}

void Evaluator::assess_different(bool on_test_set, double weight, Assessment& result) {
  model::Evaluation own_share;
  if (on_test_set) {
    own_share = evaluate(share());
    result.nodes = gather(evaluate_all(own_share), comm_);
  }
  form_mean(weight);
  result.consensus = consensus();
  if (!on_test_set) return;
  result.averaged = replicas_ == Replicas::mixed;
  if (result.averaged) {
    exchange_with_mean();
    own_share = evaluate(share());
    exchange_with_mean();
  }
  result.model = sum_over_ranks(own_share, comm_);
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

void Evaluator::adopt_mean(double weight) {
  if (replicas_ != Replicas::mixed) return;
  form_mean(weight);
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
}

void Evaluator::exchange_with_mean() {
  std::ranges::swap_ranges(replica_.parameters(), mean_.span());
  std::ranges::swap_ranges(replica_.buffers(), mean_buffers_.span());
}

data::Range Evaluator::share() const {
  return data::even_share(test_set_->size(), comm_.rank(), comm_.size());
}

/// The share that was evaluated already, and what lies before and behind it.
model::Evaluation Evaluator::evaluate_all(const model::Evaluation& own_share) {
  const data::Range done = share();
  model::Evaluation all = own_share;
  add(evaluate({0, done.begin}), all);
  add(evaluate({done.end, test_set_->size()}), all);
  return all;
}

model::Evaluation Evaluator::evaluate(data::Range samples) {
  model::Evaluation sums;
  for (std::size_t begin = samples.begin; begin < samples.end; begin += kTestBatch) {
    indices_.resize(std::min(kTestBatch, samples.end - begin));
    std::iota(indices_.begin(), indices_.end(), begin);
    test_set_->read(indices_, std::nullopt, batch_);
    add(replica_.evaluate(batch_), sums);
  }
  return sums;
}

}  // namespace eqt::train
