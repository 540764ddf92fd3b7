// SPDX-License-Identifier: Apache-2.0
// Tables of positions for pictures of other sizes. The expected grids are those of PyTorch 1.13's
// interpolate(mode="bicubic", antialias=True).

#include <cstdint>
#include <vector>

#include "model/position_table.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

std::vector<float> grid_of(std::size_t side) {
  std::vector<float> grid;
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t j = 0; j < side; ++j)
      grid.push_back(static_cast<float>((i * 7 + j * 3 + i * j * 2) % 11));
  return grid;
}

TEST_CASE("grids are resampled as PyTorch resamples pictures", "[positions]") {
  struct Case {
    std::size_t from, to;
    std::vector<float> expected;
  };
  const auto [from, to, expected] = GENERATE(
      values<Case>({{4, 2, {3.28384f, 4.8961f, 7.5396f, 4.59827f}},
                    {2, 5, {-1.07888f, -0.43831f, 1.25236f, 2.94302f, 3.58359f, 0.22012f, 0.61683f,
                            1.66388f,  2.71092f,  3.10763f, 3.64858f, 3.40167f, 2.75f,    2.09833f,
                            1.85141f,  7.07705f,  6.18652f, 3.83612f, 1.48573f, 0.5952f,  8.37605f,
                            7.24166f,  4.24764f,  1.25363f, 0.11923f}},
                    {5,
                     3,
                     {2.35953f, 5.02948f, 3.84237f, 6.72451f, 5.31632f, 4.38841f, 7.51385f,
                      6.08343f, 4.62675f}}}));
  CAPTURE(from, to);
  const std::vector<float> found = resample_grid(grid_of(from), from, from, 1, to, to);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == Approx(expected[i]).margin(2e-5));
}

TEST_CASE("a grid of the same size, and of equal values, stays", "[positions]") {
  CHECK(resample_grid(grid_of(4), 4, 4, 1, 4, 4) == grid_of(4));
  for (const float value : resample_grid(std::vector<float>(3 * 5 * 2, 7.0f), 3, 5, 2, 4, 2))
    CHECK(value == Approx(7));
}

TEST_CASE("only square tables of positions of the network's width are resized", "[positions]") {
  const VitPlan plan = {
      .hidden = 2, .layers = 12, .heads = 1, .patch = 16, .rows = 1, .columns = 3};
  std::vector<float> table = {5, 6};
  for (const float value : grid_of(2)) {
    table.push_back(value);
    table.push_back(1);
  }
  const auto resized = [&](const char* name, const std::vector<std::int64_t>& sizes) {
    return resized_positions(plan, name, sizes, table);
  };
  const auto found = resized("pos_embed", {1, 5, 2});
  REQUIRE(found);
  REQUIRE(found->size() == 8);
  CHECK((*found)[0] == 5);  // the class token's
  CHECK((*found)[1] == 6);
  for (std::size_t i = 3; i < found->size(); i += 2) CHECK((*found)[i] == Approx(1));
  CHECK_FALSE(resized("cls_token", {1, 5, 2}));
  CHECK_FALSE(resized("pos_embed", {1, 10, 1}));
  CHECK_FALSE(resized("pos_embed", {1, 4, 2}));
  CHECK_FALSE(resized("pos_embed", {5, 2}));
  CHECK_FALSE(resized("pos_embed", {1, 10, 2}));  // of which there are no values
  const auto is_table = [&](const char* name, const std::vector<std::int64_t>& sizes) {
    return is_position_table(plan, name, sizes);
  };
  CHECK(is_table("pos_embed", {1, 10, 2}));
  CHECK_FALSE(is_table("cls_token", {1, 10, 2}));
  CHECK_FALSE(is_table("pos_embed", {1, 11, 2}));
  CHECK_FALSE(is_table("pos_embed", {1, std::int64_t{1} << 31, std::int64_t{1} << 33}));
}

}  // namespace
}  // namespace eqt::model
