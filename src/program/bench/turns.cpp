// SPDX-License-Identifier: Apache-2.0
#include "bench/turns.hpp"

#include <algorithm>
#include <cstddef>

#include "core/clock.hpp"

namespace eqt::bench {
namespace {

double seconds_of(const std::function<void()>& work, std::size_t calls) {
  const WorkStopwatch watch;
  for (std::size_t i = 0; i < calls; ++i) work();
  return watch.seconds() / static_cast<double>(calls);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<double> median_seconds_in_turn(std::span<const std::function<void()>> works,
                                           double seconds) {
  const double turn = std::min(1e-3, seconds / 10);
  std::vector<std::size_t> calls;
  for (const auto& work : works) {
    work();  // touches memory for the first time
    const double one = std::max(seconds_of(work, 1), 1e-7);
    calls.push_back(1 + static_cast<std::size_t>(turn / one));
  }
  std::vector<std::vector<double>> times(works.size());
  const Stopwatch total;
  do {
    for (std::size_t i = 0; i < works.size(); ++i)
      times[i].push_back(seconds_of(works[i], calls[i]));
  } while (times.front().size() < 3 ||
           total.seconds() < seconds * static_cast<double>(works.size()));
  std::vector<double> medians;
  for (std::vector<double>& of_work : times) medians.push_back(median(std::move(of_work)));
  return medians;
}

}  // namespace eqt::bench
