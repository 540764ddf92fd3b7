// SPDX-License-Identifier: Apache-2.0
#include "train/batch_balancer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace eqt::train {
namespace {

// The first decisions come after a fifth of the usual steps.
constexpr StepId kFirstShare = 5;

double median(std::vector<double> values) {
  EQT_CHECK(!values.empty(), "the median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::size_t sum_of(const std::vector<std::size_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

}  // namespace

BatchBalancer::BatchBalancer(comm::Communicator& comm, BalanceOptions options)
    : comm_(comm),
      options_(std::move(options)),
      total_(sum_of(options_.batches)),
      batches_(options_.batches),
      estimates_(options_.batches.size()) {
  EQT_CHECK(std::ssize(batches_) == comm.size(), "{} batches for {} ranks", batches_.size(),
            comm.size());
}

data::BatchLoader::Deal BatchBalancer::deal() const {
  if (options_.own_samples) return {.batch_size = own(), .share = {0, own()}};
  return {.batch_size = total_, .share = share_of(batches_, comm_.rank())};
}

double BatchBalancer::weight() const {
  return options_.weighs ? weight_of(batches_, comm_.rank()) : 1;
}

void BatchBalancer::note_step(double seconds) {
  if (options_.every > 0 && !options_.replay) window_.push_back(seconds);
}

bool BatchBalancer::is_due(StepId done) const {
  if (options_.every == 0 || done == 0) return false;
  if (done % options_.every == 0) return true;
  const StepId first = std::max<StepId>(1, options_.every / kFirstShare);
  return done < options_.every && done % first == 0;
}

std::vector<RankSpeed> BatchBalancer::speeds() const {
  std::vector<RankSpeed> speeds;
  for (const SpeedEstimate& estimate : estimates_) speeds.push_back(estimate.speed());
  return speeds;
}

/// The present batches if no others are much better.
std::vector<std::size_t> BatchBalancer::find_better() const {
  std::vector<BatchLimits> limits;
  for (const std::size_t batch : batches_)
    limits.push_back(
        {.least = std::min(batch, std::max(options_.least, (batch + 1) / 2)), .most = 2 * batch});
  const std::vector<RankSpeed> all = speeds();
  std::vector<std::size_t> better = allocate_batches(all, limits, total_);
  const double now = slowest_rank_seconds(all, batches_);
  if (slowest_rank_seconds(all, better) > (1 - kGain) * now) return batches_;
  return better;
}

std::optional<metrics::DecisionRecord> BatchBalancer::decide(StepId done) {
  if (options_.replay) return repeat(done);
  if (!is_due(done) || window_.empty()) return {};
  const auto bits =
      comm_.allgather(std::bit_cast<std::uint64_t>(median(std::exchange(window_, {}))));
  std::vector<double> seconds;
  for (const std::uint64_t rank : bits) seconds.push_back(std::bit_cast<double>(rank));
  for (std::size_t rank = 0; rank < estimates_.size(); ++rank)
    estimates_[rank].add(
        {.samples = static_cast<double>(batches_[rank]), .seconds = seconds[rank]});
  std::vector<std::uint64_t> next(batches_.begin(), batches_.end());
  // Ranks with other processors may round otherwise.
  if (comm_.rank() == 0) std::ranges::copy(find_better(), next.begin());
  comm_.broadcast(std::as_writable_bytes(std::span(next)), 0);
  if (std::ranges::equal(next, batches_)) return {};
  const std::vector<RankSpeed> all = speeds();
  const std::vector<std::size_t> taken(next.begin(), next.end());
  const auto slowest = std::ranges::max_element(seconds) - seconds.begin();
  std::string why = fmt::format(
      "rank {} computed {:.4g} s a step, the fastest {:.4g} s; expected now {:.4g} s for all",
      slowest, seconds[static_cast<std::size_t>(slowest)], std::ranges::min(seconds),
      slowest_rank_seconds(all, taken));
  return take(done, taken, std::move(why));
}

metrics::DecisionRecord BatchBalancer::take(StepId done, std::vector<std::size_t> batches,
                                            std::string why) {
  batches_ = std::move(batches);
  return {.step = done,
          .kind = kBatchDecisions,
          .values = std::vector<double>(batches_.begin(), batches_.end()),
          .why = std::move(why)};
}

std::optional<metrics::DecisionRecord> BatchBalancer::repeat(StepId done) {
  const metrics::DecisionRecord* const found = options_.replay->after(done);
  if (found == nullptr) return {};
  const auto fits = [](double value) {
    return value >= 1 && value <= 1e9 && value == std::floor(value);
  };
  std::vector<std::size_t> batches;
  if (std::ranges::all_of(found->values, fits))
    batches.assign(found->values.begin(), found->values.end());
  if (batches.size() != batches_.size() || sum_of(batches) != total_)
    fail(Kind::data,
         "train.replay, step {}: expected {} batches of {} samples together, found [{}]; replay it "
         "with the ranks and the train.batch_size of the run that wrote it",
         done, batches_.size(), total_, fmt::join(found->values, ", "));
  return take(done, std::move(batches), found->why);
}

void BatchBalancer::visit_state(StateVisitor& visitor) {
  using Measurement = SpeedEstimate::Measurement;
  constexpr std::size_t kWindows = SpeedEstimate::kWindows;
  std::vector<std::uint64_t> batches(batches_.begin(), batches_.end()), counts;
  std::vector<double> samples(estimates_.size() * kWindows), seconds(samples.size());
  for (std::size_t rank = 0; rank < estimates_.size(); ++rank) {
    const auto& known = estimates_[rank].measurements();
    counts.push_back(known.size());
    for (std::size_t i = 0; i < known.size(); ++i) {
      samples[rank * kWindows + i] = known[i].samples;
      seconds[rank * kWindows + i] = known[i].seconds;
    }
  }
  visitor.numbers("batches", batches, Across::fresh);
  visitor.numbers("measurements", counts, Across::fresh);
  visitor.doubles("samples", samples, Across::fresh);
  visitor.doubles("seconds", seconds, Across::fresh);
  if (!visitor.restores()) return;
  batches_.assign(batches.begin(), batches.end());
  // With another train.batch_size the speeds are still known, and the batches are not.
  if (sum_of(batches_) != total_) batches_ = options_.batches;
  window_.clear();
  for (std::size_t rank = 0; rank < estimates_.size(); ++rank) {
    std::vector<Measurement> known;
    for (std::size_t i = 0; i < std::min<std::size_t>(counts[rank], kWindows); ++i)
      known.push_back(
          {.samples = samples[rank * kWindows + i], .seconds = seconds[rank * kWindows + i]});
    estimates_[rank].restore(known);
  }
}

}  // namespace eqt::train
