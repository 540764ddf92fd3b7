// SPDX-License-Identifier: Apache-2.0
#include "report/baseline.hpp"

namespace eqt::report {
namespace {

bool is_float32(const Run& run) { return run.compressor == "none"; }

/// Settings in which groups differ, except those of the compressor.
std::size_t distance(const Group& a, const Group& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.differences.size(); ++i)
    count += !a.differences[i].first.starts_with("compressor.") &&
             a.differences[i].second != b.differences[i].second;
  return count;
}

bool may_be_baseline(const Group& of, const Group& other) {
  if (&of == &other || !is_float32(other.first()) || other.finished() != of.finished())
    return false;
  if (!is_float32(of.first())) return true;
  return of.first().algorithm != "allreduce" && other.first().algorithm == "allreduce";
}

}  // namespace

const Group* baseline_of(const Group& group, const std::vector<Group>& groups) {
  const Group* nearest = nullptr;
  std::size_t least = 0, as_near = 0;
  for (const Group& other : groups) {
    if (!may_be_baseline(group, other)) continue;
    const std::size_t found = distance(group, other);
    if (nearest == nullptr || found < least) {
      nearest = &other;
      least = found;
      as_near = 0;
    }
    as_near += found == least;
  }
  return as_near == 1 ? nearest : nullptr;
}

}  // namespace eqt::report
