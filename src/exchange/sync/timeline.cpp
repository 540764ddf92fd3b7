// SPDX-License-Identifier: Apache-2.0
// A common clock of the ranks, and the spans of each rank's last steps.

#include "sync/timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <span>
#include <string>

#include "core/checksum.hpp"
#include "core/error.hpp"

namespace eqt::sync {
namespace {

constexpr int kQuestions = 8;
constexpr double kShortest = 20e-6;  // [seconds]
constexpr std::size_t kMostSpans = 256;
constexpr std::size_t kNumbersOfSpan = 3, kNumbersOfStep = 2;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A number for the running kernel, which starts the steady clock.
std::uint64_t kernel_mark(Rank rank) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!std::getline(file, text)) text = "rank " + std::to_string(rank);
  return checksum(std::as_bytes(std::span(text)), 0);
}

double broadcast_number(comm::Communicator& comm, double value, Rank root) {
  comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), root);
  return value;
}

/// Returns what rank 0 adds to the clock of `rank` to have its own, and the error, on all ranks.
std::array<double, 2> compare_clocks(comm::Communicator& comm, Rank rank) {
  double offset = 0, error = std::numeric_limits<double>::infinity();
  for (int question = 0; question < kQuestions; ++question) {
    const double asked = steady_seconds();
    broadcast_number(comm, asked, 0);
    const double theirs = broadcast_number(comm, steady_seconds(), rank);
    const double answered = steady_seconds();
    if ((answered - asked) / 2 >= error) continue;
    error = (answered - asked) / 2;
    offset = (asked + answered) / 2 - theirs;
  }
  return {broadcast_number(comm, offset, 0), broadcast_number(comm, error, 0)};
}

/// The kept steps as numbers: step and number of spans, then activity, begin and end of each.
std::vector<double> packed(const std::vector<metrics::TimelineRecord>& ring) {
  std::vector<double> numbers;
  for (const metrics::TimelineRecord& record : ring) {
    if (record.step == 0) continue;
    numbers.push_back(static_cast<double>(record.step));
    numbers.push_back(static_cast<double>(record.spans.size()));
    for (const metrics::TimelineSpan& span : record.spans) {
      numbers.push_back(static_cast<double>(span.activity));
      numbers.push_back(span.begin);
      numbers.push_back(span.end);
    }
  }
  return numbers;
}

void unpack(std::span<const double> numbers, Rank rank,
            std::vector<metrics::TimelineRecord>& records) {
  for (std::size_t i = 0; i + kNumbersOfStep <= numbers.size();) {
    metrics::TimelineRecord record{
        .step = static_cast<StepId>(numbers[i]), .rank = rank, .spans = {}};
    const auto spans = static_cast<std::size_t>(numbers[i + 1]);
    i += kNumbersOfStep;
    if (spans > kMostSpans || i + spans * kNumbersOfSpan > numbers.size())
      fail(Kind::wire, "timeline of rank {}: expected the spans of step {}, found {} bytes", rank,
           record.step, numbers.size_bytes());
    for (std::size_t s = 0; s < spans; ++s, i += kNumbersOfSpan)
      record.spans.push_back(
          {static_cast<metrics::Activity>(numbers[i]), numbers[i + 1], numbers[i + 2]});
    records.push_back(std::move(record));
  }
}

}  // namespace

CommonClock agree_on_clock(comm::Communicator& comm) {
  const double start = broadcast_number(comm, steady_seconds(), 0);
  const std::vector<std::uint64_t> kernels = comm.allgather(kernel_mark(comm.rank()));
  CommonClock clock{.offset_seconds = -start};
  for (Rank rank = 1; rank < comm.size(); ++rank) {
    if (kernels[static_cast<std::size_t>(rank)] == kernels[0]) continue;
    const auto [offset, error] = compare_clocks(comm, rank);
    if (rank == comm.rank()) clock.offset_seconds += offset;
    clock.error_seconds = std::max(clock.error_seconds, error);
  }
  return clock;
}

Timeline::Timeline(std::size_t steps) : ring_(steps) {
  EQT_CHECK(steps > 0, "a timeline of {} steps", steps);
}

double Timeline::now() const { return steady_seconds() + clock_.offset_seconds; }

void Timeline::begin_step(StepId step) {
  const std::lock_guard lock(mutex_);
  at_ = static_cast<std::size_t>(step % ring_.size());
  ring_[at_].step = step;
  ring_[at_].spans.clear();
}

void Timeline::note(Activity activity, double begin, double end) {
  if (end - begin < kShortest) return;
  const std::lock_guard lock(mutex_);
  std::vector<metrics::TimelineSpan>& spans = ring_[at_].spans;
  const auto same = std::find_if(spans.rbegin(), spans.rend(),
                                 [&](const auto& span) { return span.activity == activity; });
  if (same != spans.rend() && std::abs(begin - same->end) < kShortest) {
    same->end = end;
  } else if (spans.size() < kMostSpans) {
    spans.push_back({activity, begin, end});
  }
}

std::vector<metrics::TimelineRecord> Timeline::gather(comm::Communicator& comm) {
  const std::lock_guard lock(mutex_);
  const auto lists = comm.allgather_lists<double>(packed(ring_));
  for (metrics::TimelineRecord& record : ring_) record = {};
  std::vector<metrics::TimelineRecord> records;
  if (comm.rank() != 0) return records;
  for (Rank rank = 0; rank < comm.size(); ++rank)
    unpack(lists[static_cast<std::size_t>(rank)], rank, records);
  std::ranges::stable_sort(records, {}, &metrics::TimelineRecord::step);
  return records;
}

void MessageSpans::begin() { busy_since_ = now(); }

void MessageSpans::waited(double seconds) {
  if (timeline_ == nullptr) return;
  const double end = timeline_->now(), begin = std::max(busy_since_, end - seconds);
  timeline_->note(metrics::Activity::messages, busy_since_, begin);
  timeline_->note(metrics::Activity::transfer, begin, end);
  busy_since_ = end;
}

void MessageSpans::idled(double begin) {
  if (timeline_ == nullptr) return;
  timeline_->note(metrics::Activity::messages, busy_since_, begin);
  busy_since_ = timeline_->now();
}

void MessageSpans::end() {
  if (timeline_ == nullptr) return;
  timeline_->note(metrics::Activity::messages, busy_since_, timeline_->now());
}

}  // namespace eqt::sync
