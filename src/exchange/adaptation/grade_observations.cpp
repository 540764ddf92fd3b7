// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_observations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collective/messages.hpp"
#include "core/error.hpp"

namespace eqt::adaptation {
namespace {

using grade_numbers::Clocks;
using grade_numbers::mean_at;
using grade_numbers::Row;

constexpr std::size_t kSampledRanges = 16;
constexpr double kLeastSeconds = 1e-9;

double product_of(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l)
      sums[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace

GradeRows::GradeRows(comm::Communicator& comm, const codec::MixedGrades& codec,
                     const std::vector<SliceParts>& slices, const Row& row,
                     const GradeAdaptationOptions& options)
    : comm_(comm), slices_(slices), row_(row), options_(options), trials_(codec) {
  for (const SliceParts& slice : slices_)
    samples_.push_back(sample_of(slice, codec.properties().granule, kSampledRanges));
  if (!options.pairs) return;
  std::size_t end = 0;
  for (const SliceParts& slice : slices_)
    end = std::max(end, slice.parts.back().begin + slice.parts.back().count);
  const bool plays_workers = options.ranks != comm.size();
  kept_.assign(plays_workers ? static_cast<std::size_t>(options.ranks) : 1,
               std::vector<float>(end));
}

void GradeRows::take(const pipeline::FusionBucket& bucket, std::span<const float> flat) {
  own_.resize(flat.size());
  const auto from = flat.subspan(bucket.begin, bucket.count());
  std::ranges::copy(from, own_.begin() + static_cast<std::ptrdiff_t>(bucket.begin));
}

void GradeRows::end_worker() { workers_.push_back(std::exchange(own_, {})); }

void GradeRows::take_mean(std::span<const float> mean, const StepSeconds& seconds) {
  mean_ = mean;
  seconds_ = seconds;
}

void GradeRows::keep() {
  const auto copy = [](const std::vector<float>& from, std::vector<float>& to) {
    std::copy_n(from.begin(), to.size(), to.begin());
  };
  if (workers_.empty()) {
    copy(own_, kept_.front());
  } else {
    for (std::size_t w = 0; w < workers_.size(); ++w) copy(workers_[w], kept_.at(w));
    workers_.clear();
  }
  has_kept_ = 1;
}

void GradeRows::visit_state(StateVisitor& visitor) {
  if (kept_.empty()) return;
  visitor.number("has kept", has_kept_, Across::same);
  for (std::size_t w = 0; w < kept_.size(); ++w)
    visitor.values(fmt::format("kept {}", w), kept_[w], Across::own);
}

/// Half the square of what is sent minus that of the step before.
double GradeRows::change_of(std::size_t slice, std::size_t rank,
                            std::span<const float> gradient) const {
  const std::vector<float>& before = kept_.at(kept_.size() == 1 ? 0 : rank);
  double sum = 0;
  for (const SliceParts::Part& part : slices_[slice].parts) {
    for (std::size_t i = part.begin; i < part.begin + part.count; ++i) {
      const double change = static_cast<double>(gradient[i]) - static_cast<double>(before[i]);
      sum += change * change;
    }
  }
  return sum / 2;
}

std::vector<double> GradeRows::row_of(Rank rank, std::span<const float> gradient, StepId step) {
  const RankBatch batch = options_.batch(rank);
  std::vector<double> row(row_.size());
  row[Row::kSamples] = batch.samples;
  row[Row::kWeight] = batch.weight;
  std::vector<GradeTrial> all(row_.grades);
  const RandomKey key =
      make_key(options_.run_seed, step, static_cast<std::uint32_t>(rank), RandomPurpose::trial);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    double square = 0, product = 0;
    for (const SliceParts::Part& part : slices_[s].parts) {
      const auto own = gradient.subspan(part.begin, part.count);
      square += product_of(own, own);
      product += product_of(own, mean_.subspan(part.begin, part.count));
    }
    // What was sent is weight times the gradient.
    row[row_.square(s)] = square / (batch.weight * batch.weight);
    row[row_.product(s)] = product / batch.weight;
    if (has_kept_ != 0)
      row[row_.change(s)] =
          change_of(s, static_cast<std::size_t>(rank), gradient) / (batch.weight * batch.weight);
    const std::vector<GradeTrial> trials = trials_.run(samples_[s], gradient, key);
    for (std::size_t k = 0; k < trials.size(); ++k) {
      row[row_.error(s) + k] = trials[k].relative_error() * square;
      row[row_.bytes(s) + k] = trials[k].bytes_per_value();
      all[k].values += trials[k].values;
      all[k].encode_seconds += trials[k].encode_seconds;
      all[k].decode_seconds += trials[k].decode_seconds;
    }
  }
  if (options_.uses_clock) add_seconds(row, all);
  return row;
}

void GradeRows::add_seconds(std::vector<double>& row, const std::vector<GradeTrial>& trials) const {
  row[Row::kForward] = seconds_.forward;
  row[Row::kBackward] = seconds_.backward;
  row[Row::kDelayed] = seconds_.delayed;
  row[Row::kCommunicating] = seconds_.communicating;
  row[Row::kAll] = seconds_.all;
  for (std::size_t b = 0; b < std::min(row_.buckets, seconds_.ready.size()); ++b)
    row[row_.ready() + b] =
        (seconds_.ready[b] - seconds_.forward) / std::max(seconds_.backward, kLeastSeconds);
  for (std::size_t k = 0; k < trials.size(); ++k) {
    row[Row::kEncode + k] = trials[k].encode_seconds / std::max(trials[k].values, 1.0);
    row[row_.decode() + k] = trials[k].decode_seconds / std::max(trials[k].values, 1.0);
  }
}

std::vector<std::vector<double>> GradeRows::of_all_ranks(StepId step) {
  std::vector<std::vector<double>> rows;
  if (options_.pairs && has_kept_ == 0) {
    workers_.clear();
    return rows;
  }
  if (!workers_.empty()) {
    for (const std::vector<float>& gradient : workers_)
      rows.push_back(row_of(static_cast<Rank>(rows.size()), gradient, step));
    workers_.clear();
  } else {
    rows = exchanged(row_of(comm_.rank(), own_, step));
  }
  has_kept_ = 0;
  EQT_CHECK(std::ssize(rows) == options_.ranks, "{} rows of {} ranks", rows.size(), options_.ranks);
  return rows;
}

std::vector<std::vector<double>> GradeRows::exchanged(std::vector<double> own) {
  constexpr const char* kOperation = "adaptation: what ranks observe";
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(comm_.size()),
                                        std::vector<double>(row_.size()));
  std::vector<comm::Outgoing> outgoing;
  std::vector<comm::Incoming> incoming;
  for (Rank peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    outgoing.push_back({peer, std::as_bytes(std::span(own))});
    const std::span<double> theirs = rows[static_cast<std::size_t>(peer)];
    incoming.push_back({peer, std::as_writable_bytes(theirs), 0});
  }
  comm_.exchange(outgoing, incoming, kOperation);
  for (const comm::Incoming& in : incoming)
    collective::require_bytes(in, in.buffer.size(), kOperation);
  rows[static_cast<std::size_t>(comm_.rank())] = std::move(own);
  return rows;
}

namespace {

constexpr double kLeast = 1, kMost = 4096;
constexpr double kPrecision = 0.03;  // of predicted and measured seconds
constexpr double kRatio = 1.05;      // of neighbouring slowdowns that are told apart
// A link that suddenly is so much slower or faster has changed; else measurements are averaged.
constexpr double kChanged = 1.5;
constexpr double kKept = 0.7;

/// The greatest slowdown with at most these seconds. @pre seconds(kLeast) <= limit
double greatest(const std::function<double(double)>& seconds, double limit) {
  if (seconds(kMost) <= limit) return kMost;
  double low = kLeast, high = kMost;
  while (high > low * kRatio) {
    const double middle = std::sqrt(low * high);
    (seconds(middle) <= limit ? low : high) = middle;
  }
  return low;
}

}  // namespace

double link_slowdown(const std::function<double(double slowdown)>& seconds, double measured,
                     double present) {
  if (!(measured > 0)) return present;
  const double least = seconds(kLeast);
  if (seconds(kMost) <= least) return present;  // links have no part in it
  double low = kLeast, high = kLeast;
  if (least < measured * (1 - kPrecision)) low = greatest(seconds, measured * (1 - kPrecision));
  if (least <= measured * (1 + kPrecision)) high = greatest(seconds, measured * (1 + kPrecision));
  const double found = std::clamp(present, low, std::max(low, high));
  if (found > kChanged * present || present > kChanged * found) return found;
  return std::pow(present, kKept) * std::pow(found, 1 - kKept);
}

namespace {

constexpr double kClocksKept = 0.5;

double most_at(const std::vector<std::vector<double>>& rows, std::size_t place) {
  double most = 0;
  for (const std::vector<double>& row : rows) most = std::max(most, row[place]);
  return most;
}

}  // namespace

GradeSpeeds::GradeSpeeds(const Row& row, int threads)
    : row_(row),
      threads_(threads),
      at_{row.grades, row.buckets},
      clocks_(at_.size(), kClocksKept) {}

void GradeSpeeds::add(const std::vector<std::vector<double>>& rows) {
  std::vector<double> all(at_.size());
  // Threads of a rank wait for a core one after the other, and all for the last one. What they
  // wait beyond the work of all communication threads is due to other programs, and stays.
  const double delayed = threads_ * mean_at(rows, Row::kDelayed);
  const double communicating = mean_at(rows, Row::kCommunicating);
  const double explained = delayed > communicating ? communicating / delayed : 1;
  all[Clocks::kForward] = most_at(rows, Row::kForward);
  for (const std::vector<double>& row : rows) {
    const double lost = explained * threads_ * row[Row::kDelayed];
    all[Clocks::kBackward] = std::max(all[Clocks::kBackward], row[Row::kBackward] - lost);
  }
  if (communicating > 0) all[Clocks::kContention] = std::min(1.0, delayed / communicating);
  for (std::size_t k = 0; k < row_.grades; ++k) {
    all[Clocks::kEncode + k] = mean_at(rows, Row::kEncode + k);
    all[at_.decode() + k] = mean_at(rows, row_.decode() + k);
  }
  for (std::size_t b = 0; b < row_.buckets; ++b)
    all[at_.ready() + b] = mean_at(rows, row_.ready() + b);
  clocks_.add(all);
}

void GradeSpeeds::add_step(const std::vector<std::vector<double>>& rows,
                           const std::function<double(const StepSpeeds&)>& seconds) {
  StepSpeeds speeds = now();
  slowdown_ = link_slowdown(
      [&](double slowdown) {
        speeds.slowdown = slowdown;
        return seconds(speeds);
      },
      mean_at(rows, Row::kAll), slowdown_);
}

StepSpeeds GradeSpeeds::now() const {
  StepSpeeds speeds{.forward = clocks_[Clocks::kForward],
                    .backward = clocks_[Clocks::kBackward],
                    .contention = clocks_[Clocks::kContention],
                    .encode_seconds = {},
                    .decode_seconds = {},
                    .slowdown = slowdown_};
  for (std::size_t k = 0; k < row_.grades; ++k) {
    speeds.encode_seconds.push_back(clocks_[Clocks::kEncode + k]);
    speeds.decode_seconds.push_back(clocks_[at_.decode() + k]);
  }
  for (std::size_t b = 0; b < row_.buckets; ++b) speeds.ready.push_back(clocks_[at_.ready() + b]);
  return speeds;
}

void GradeSpeeds::visit_state(StateVisitor& visitor) {
  visit_in(visitor, "clocks", clocks_);
  visitor.real("slowdown", slowdown_, Across::same);
}

}  // namespace eqt::adaptation
