// SPDX-License-Identifier: Apache-2.0
// A mixing matrix: valid and invalid entries, and its properties.

#include "topology/mixing_matrix.hpp"

#include <limits>

#include "support/topologies.hpp"

using eqt::test::refusal;
using eqt::test::says;
using eqt::topology::Entry;
using eqt::topology::MixingMatrix;
using eqt::topology::Neighbour;

namespace {

// Rank 0 gives half to 1, rank 1 gives a third to each other, rank 2 keeps all but a quarter.
MixingMatrix lopsided() {
  return {3,
          {{0, 1, 0.5},
           {1, 2, 1.0 / 3},
           {1, 1, 1.0 / 3},
           {1, 0, 1.0 / 3},
           {2, 0, 0.25},
           {2, 2, 0.75},
           {0, 0, 0.5}}};
}

std::vector<Neighbour> list(std::span<const Neighbour> neighbours) {
  return {neighbours.begin(), neighbours.end()};
}

std::string refused(int ranks, std::vector<Entry> entries) {
  return refusal(eqt::Kind::usage, [&] { MixingMatrix(ranks, std::move(entries)); });
}

}  // namespace

TEST_CASE("entries are found by index, by row and by column", "[topology]") {
  const MixingMatrix w = lopsided();
  CHECK(w.ranks() == 3);
  CHECK(w.edge_count() == 4);
  CHECK(w.self_weight(2) == 0.75);
  CHECK(w.weight(1, 0) == 0.5);  // what 1 applies to what it gets from 0
  CHECK(w.weight(0, 1) == 1.0 / 3);
  CHECK(w.weight(2, 0) == 0);
  CHECK(w.weight(0, 0) == 0.5);
  CHECK(list(w.in_neighbours(0)) == std::vector<Neighbour>{{1, 1.0 / 3}, {2, 0.25}});
  CHECK(list(w.in_neighbours(1)) == std::vector<Neighbour>{{0, 0.5}});
  CHECK(list(w.out_neighbours(1)) == std::vector<Neighbour>{{0, 1.0 / 3}, {2, 1.0 / 3}});
  CHECK(list(w.out_neighbours(2)) == std::vector<Neighbour>{{0, 0.25}});
  CHECK(w.row_major() ==
        std::vector<double>{0.5, 1.0 / 3, 0.25, 0.5, 1.0 / 3, 0, 0, 1.0 / 3, 0.75});
}

TEST_CASE("a mixing matrix reports which sums are 1", "[topology]") {
  const MixingMatrix columns = lopsided();
  CHECK(columns.is_column_stochastic());
  CHECK_FALSE(columns.is_row_stochastic());
  CHECK_FALSE(columns.is_doubly_stochastic());
  CHECK_FALSE(columns.is_symmetric());
  std::vector<Entry> transposed;
  for (eqt::Rank i = 0; i < 3; ++i)
    for (eqt::Rank j = 0; j < 3; ++j) transposed.push_back({i, j, columns.weight(i, j)});
  const MixingMatrix rows(3, transposed);
  CHECK(rows.is_row_stochastic());
  CHECK_FALSE(rows.is_column_stochastic());
  const MixingMatrix both(2, {{0, 0, 0.25}, {0, 1, 0.75}, {1, 0, 0.75}, {1, 1, 0.25}});
  CHECK(both.is_doubly_stochastic());
  CHECK(both.is_symmetric());
  const MixingMatrix shift(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}});
  CHECK(shift.is_doubly_stochastic());
  CHECK_FALSE(shift.is_symmetric());
}

TEST_CASE("connected and primitive matrices are distinguished", "[topology]") {
  CHECK(lopsided().is_primitive());
  const MixingMatrix shift(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}});
  CHECK(shift.is_strongly_connected());
  CHECK_FALSE(shift.is_primitive());
  // Cycles of 2 and 3 edges: no common divisor, although no rank keeps a part.
  const MixingMatrix coprime(3, {{0, 1, 1}, {1, 2, 0.5}, {1, 0, 0.5}, {2, 0, 1}});
  CHECK(coprime.is_primitive());
  const MixingMatrix one_way(2, {{0, 1, 0.5}, {0, 0, 0.5}, {1, 1, 1}});
  CHECK_FALSE(one_way.is_strongly_connected());
  CHECK(MixingMatrix(1, {{0, 0, 1}}).is_primitive());
}

TEST_CASE("an edge of weight 0 is none", "[topology]") {
  const MixingMatrix w(2, {{0, 0, 1}, {1, 1, 1}, {0, 1, 0}});
  CHECK(w.edge_count() == 0);
  CHECK(w.in_neighbours(1).empty());
  CHECK_FALSE(w.is_strongly_connected());
}

TEST_CASE("a matrix whose sums are not 1 is refused", "[topology]") {
  says(refused(2, {{0, 0, 0.5}, {0, 1, 0.4}, {1, 1, 1}}), "sum to 1");
  says(refused(2, {{0, 0, 0.5}, {0, 1, 0.5 + 3e-12}, {1, 1, 1}}), "sum to 1");
  // Rounding errors are accepted.
  CHECK(MixingMatrix(2, {{0, 0, 0.5}, {0, 1, 0.5 + 1e-15}, {1, 1, 1}}).is_column_stochastic());
  says(refused(1, {}), "sum to 1");
}

TEST_CASE("entries out of range are refused", "[topology]") {
  says(refused(0, {}), "at least 1 rank");
  says(refused(2, {{0, 2, 1}, {1, 1, 1}}), "from 0 to 2");
  says(refused(2, {{-1, 0, 1}, {1, 1, 1}}), "from -1 to 0");
  says(refused(2, {{0, 0, 1}, {1, 1, 0.5}, {1, 1, 0.5}}), "two");
  says(refused(2, {{0, 0, 1.5}, {0, 1, -0.5}, {1, 1, 1}}), "-0.5");
  says(refused(1, {{0, 0, std::numeric_limits<double>::quiet_NaN()}}), "nan");
  says(refused(1, {{0, 0, std::numeric_limits<double>::infinity()}}), "inf");
}
