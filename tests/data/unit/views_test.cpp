// SPDX-License-Identifier: Apache-2.0
#include "data/views.hpp"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/images.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::data;

namespace {

/// Pictures whose values are 1, 2, 3 and so on.
Array counted(std::size_t pictures, const ImageShape& shape) {
  Array array;
  const auto values = array.prepare<float>(image_spec(shape), pictures);
  std::iota(values.begin(), values.end(), 1.0f);
  return array;
}

std::vector<float> view(const Array& pictures, const View& wanted) {
  Array out;
  write_view(pictures, wanted, out);
  CHECK(out.shape == pictures.shape);
  const auto values = std::as_const(out).get<float>();
  return {values.begin(), values.end()};
}

using Values = std::vector<float>;

}  // namespace

TEST_CASE("views of a picture", "[views]") {
  const Array pictures = counted(2, {1, 2, 3});  // 1 2 3 / 4 5 6 and 7 8 9 / 10 11 12
  CHECK(view(pictures, {}) == Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(view(pictures, {.mirrored = true}) == Values{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10});
  // What comes in at the upper and left edge is the row below and the column to the right.
  CHECK(view(pictures, {.shift = 1}) == Values{5, 4, 5, 2, 1, 2, 11, 10, 11, 8, 7, 8});
  CHECK(view(pictures, {.shift = -1}) == Values{5, 6, 5, 2, 3, 2, 11, 12, 11, 8, 9, 8});
  CHECK(view(pictures, {.shift = 1, .mirrored = true}) ==
        Values{5, 6, 5, 2, 3, 2, 11, 12, 11, 8, 9, 8});
}

TEST_CASE("views keep the channels of a pixel together", "[views]") {
  const Array pictures = counted(1, {3, 2, 2});
  CHECK(view(pictures, {.mirrored = true}) == Values{4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9});
}

TEST_CASE("the weights of views add up to 1", "[views]") {
  const auto [views, count] = GENERATE(table<TestViews, std::size_t>(
      {{TestViews::plain, 1}, {TestViews::flip, 2}, {TestViews::flip_shift, 6}}));
  float sum = 0;
  for (const View& one : views_of(views)) sum += one.weight;
  CHECK(sum == 1);
  CHECK(views_of(views).size() == count);
}

TEST_CASE("pictures of one pixel cannot be shifted", "[views]") {
  Array out;
  const std::string message = eqt::test::refusal(Kind::usage, [&] {
    write_view(counted(1, {1, 1, 5}), {.shift = 1}, out);
  });
  CHECK(eqt::test::says(message, "evaluate.augment"));
}
