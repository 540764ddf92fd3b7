// SPDX-License-Identifier: Apache-2.0
#include "app/sample_grid.hpp"

#include "support/catch.hpp"
#include "support/pictures.hpp"

using namespace eqt;

namespace {

/// Image i has the value i everywhere, and channel c is 100 c larger.
data::Batch batch_of(std::size_t images, data::ImageShape shape) {
  std::vector<float> values;
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (std::size_t i = 0; i < images * shape.values(); ++i) {
    values.push_back(static_cast<float>(i / shape.values() + 100 * (i % channels)));
  }
  data::Batch batch;
  test::write_pictures(shape, 10, values, std::vector<std::int64_t>(images), batch);
  return batch;
}

}  // namespace

TEST_CASE("images are in reading order, eight per row, with a white pixel between them",
          "[samples]") {
  const auto grid = app::sample_grid(batch_of(10, {.channels = 1, .height = 2, .width = 3}));
  REQUIRE((grid.width == 8 * 4 - 1 && grid.height == 2 * 3 - 1 && grid.channels == 1));
  const auto at = [&](int x, int y) {
    return static_cast<int>(grid.pixels.at(static_cast<std::size_t>(y * grid.width + x)));
  };
  // Values 0 to 9 are stretched to 0 ... 255.
  CHECK(at(0, 0) == 0);
  CHECK(at(2, 1) == 0);
  CHECK(at(3, 0) == 255);
  CHECK(at(4, 0) == 28);
  CHECK(at(0, 2) == 255);
  CHECK(at(0, 3) == 227);
  CHECK(at(6, 4) == 255);
  CHECK(at(30, 4) == 255);
}

TEST_CASE("each channel is stretched by itself, and no more than 64 images are shown",
          "[samples]") {
  const auto grid = app::sample_grid(batch_of(100, {.channels = 3, .height = 1, .width = 1}));
  CHECK((grid.width == 15 && grid.height == 15 && grid.channels == 3));
  for (std::size_t c = 0; c < 3; ++c) CHECK(grid.pixels.at(6 + c) == 3);  // 255 / 99
}

TEST_CASE("a batch of few and of equal images", "[samples]") {
  const auto grid = app::sample_grid(batch_of(1, {.channels = 1, .height = 2, .width = 2}));
  CHECK((grid.width == 2 && grid.height == 2));
  CHECK(grid.pixels == std::vector<std::uint8_t>(4, 0));
}
