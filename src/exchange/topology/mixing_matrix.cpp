// SPDX-License-Identifier: Apache-2.0
#include "topology/mixing_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/error.hpp"
#include "topology/connectivity.hpp"

namespace eqt::topology {
namespace {

void check_entries(int ranks, const std::vector<Entry>& sorted) {
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    const Entry& entry = sorted[k];
    if (entry.from < 0 || entry.from >= ranks || entry.to < 0 || entry.to >= ranks)
      fail(Kind::usage, "mixing matrix: expected ranks from 0 to {}, found an edge from {} to {}",
           ranks - 1, entry.from, entry.to);
    if (!std::isfinite(entry.weight) || entry.weight < 0)
      fail(Kind::usage,
           "mixing matrix: expected a finite weight of at least 0 from rank {} to rank {}, found "
           "{}",
           entry.from, entry.to, entry.weight);
    if (k > 0 && entry.from == sorted[k - 1].from && entry.to == sorted[k - 1].to)
      fail(Kind::usage,
           "mixing matrix: expected one weight from rank {} to rank {}, found two; add them",
           entry.from, entry.to);
  }
}

/// The index of the first sum that is not 1; the number of sums if there is none.
std::size_t first_off(const std::vector<double>& sums) {
  const auto off =
      std::ranges::find_if(sums, [](double sum) { return !(std::abs(sum - 1) <= kSumTolerance); });
  return static_cast<std::size_t>(off - sums.begin());
}

std::span<const Neighbour> part(const std::vector<Neighbour>& list,
                                const std::vector<std::size_t>& begins, Rank rank) {
  const auto r = static_cast<std::size_t>(rank);
  return std::span(list).subspan(begins.at(r), begins.at(r + 1) - begins.at(r));
}

}  // namespace

MixingMatrix::MixingMatrix(int ranks, std::vector<Entry> entries) : ranks_(ranks) {
  if (ranks < 1) fail(Kind::usage, "mixing matrix: expected at least 1 rank, found {}", ranks);
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::tuple(e.from, e.to); });
  check_entries(ranks, entries);
  build_lists(std::move(entries));
  check_sums();
  symmetric_ = std::ranges::equal(in_from_, out_from_) &&
               std::ranges::equal(in_, out_, [](const Neighbour& a, const Neighbour& b) {
                 return a.rank == b.rank && std::abs(a.weight - b.weight) <= kSumTolerance;
               });
}

void MixingMatrix::build_lists(std::vector<Entry> entries) {
  const auto count = static_cast<std::size_t>(ranks_);
  self_.assign(count, 0);
  const auto take = [&](std::vector<Neighbour>& list, std::vector<std::size_t>& begins,
                        Rank Entry::*owner, Rank Entry::*other) {
    begins.assign(count + 1, 0);
    for (const Entry& entry : entries) {
      list.push_back({entry.*other, entry.weight});
      ++begins[static_cast<std::size_t>(entry.*owner) + 1];
    }
    for (std::size_t r = 0; r < count; ++r) begins[r + 1] += begins[r];
  };
  for (const Entry& entry : entries)
    if (entry.from == entry.to) self_[static_cast<std::size_t>(entry.from)] = entry.weight;
  std::erase_if(entries, [](const Entry& e) { return e.from == e.to || e.weight == 0; });
  take(out_, out_from_, &Entry::from, &Entry::to);
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::tuple(e.to, e.from); });
  take(in_, in_from_, &Entry::to, &Entry::from);
}

void MixingMatrix::check_sums() {
  std::vector<double> columns = self_, rows = self_;
  for (std::size_t r = 0; r < self_.size(); ++r) {
    for (const Neighbour& to : out_neighbours(static_cast<Rank>(r))) columns[r] += to.weight;
    for (const Neighbour& from : in_neighbours(static_cast<Rank>(r))) rows[r] += from.weight;
  }
  const std::size_t column = first_off(columns), row = first_off(rows);
  columns_sum_ = column == columns.size();
  rows_sum_ = row == rows.size();
  if (columns_sum_ || rows_sum_) return;
  fail(Kind::usage,
       "mixing matrix: expected columns (or rows) that sum to 1, found {} as the sum of what rank "
       "{} keeps and gives away and {} as the sum of what rank {} is made of; choose each self "
       "weight as 1 minus the weights given away",
       columns[column], column, rows[row], row);
}

double MixingMatrix::weight(Rank to, Rank from) const {
  if (to == from) return self_weight(to);
  const auto neighbours = in_neighbours(to);
  const auto found = std::ranges::lower_bound(neighbours, from, {}, &Neighbour::rank);
  return found != neighbours.end() && found->rank == from ? found->weight : 0;
}

double MixingMatrix::self_weight(Rank rank) const {
  return self_.at(static_cast<std::size_t>(rank));
}

std::span<const Neighbour> MixingMatrix::in_neighbours(Rank rank) const {
  return part(in_, in_from_, rank);
}

std::span<const Neighbour> MixingMatrix::out_neighbours(Rank rank) const {
  return part(out_, out_from_, rank);
}

bool MixingMatrix::is_strongly_connected() const {
  return topology::is_strongly_connected(edges_of(*this));
}

bool MixingMatrix::is_primitive() const {
  return is_strongly_connected() && cycle_period(edges_of(*this)) == 1;
}

std::vector<double> MixingMatrix::row_major() const {
  const auto count = static_cast<std::size_t>(ranks_);
  std::vector<double> dense(count * count, 0.0);
  for (std::size_t to = 0; to < count; ++to) {
    dense[to * count + to] = self_[to];
    for (const Neighbour& from : in_neighbours(static_cast<Rank>(to)))
      dense[to * count + static_cast<std::size_t>(from.rank)] = from.weight;
  }
  return dense;
}

}  // namespace eqt::topology
