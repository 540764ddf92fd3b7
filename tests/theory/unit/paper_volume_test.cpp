// SPDX-License-Identifier: Apache-2.0
// The tables' accounting, computed by hand for small layouts.

#include "theory/paper_volume.hpp"

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::theory;

namespace {

Layout layout_of(std::initializer_list<std::size_t> counts) {
  Layout layout;
  for (const std::size_t count : counts) {
    layout.push_back({"t", {static_cast<std::int64_t>(count)}, total_count(layout), count});
  }
  return layout;
}

}  // namespace

TEST_CASE("the tables count four bytes per parameter and push-sum's weight", "[paper]") {
  CHECK(paper_bytes_per_step(layout_of({1}), {}) == 8);
  CHECK(paper_bytes_per_step(layout_of({700, 300}), {}) == 4004);
}

TEST_CASE("the tables keep at least one value of a tensor, and round down", "[paper]") {
  CHECK(paper_kept_values(layout_of({1, 99, 199, 250}), 0.01) == 1 + 1 + 1 + 2);
  CHECK(paper_bytes_per_step(layout_of({1, 99, 199, 250}), 0.01) == 6 * 5 + 3);
  CHECK(paper_kept_values(layout_of({640, 7}), 1) == 647);
  // 1 - 0.9 is below 0.1 in double precision: one value less than a tenth.
  CHECK(paper_kept_values(layout_of({640}), 0.1) == 63);
}

TEST_CASE("the tables' epochs end with a short batch, and shards are cut down", "[paper]") {
  CHECK(paper_steps_per_epoch(50000, 8, 32) == 196);  // 6250 = 195 * 32 + 10
  CHECK(paper_steps_per_epoch(50000, 16, 32) == 98);  // 3125 = 97 * 32 + 21
  CHECK(paper_steps_per_epoch(64, 2, 32) == 1);
  CHECK(paper_steps_per_epoch(67, 2, 32) == 2);
  CHECK_THROWS_AS(paper_steps_per_epoch(64, 0, 32), Error);
}
