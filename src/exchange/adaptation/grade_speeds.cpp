// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_speeds.hpp"

#include <algorithm>

#include "adaptation/link_slowdown.hpp"

namespace eqt::adaptation {
namespace {

using grade_numbers::Clocks;
using grade_numbers::mean_at;
using grade_numbers::Row;

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
