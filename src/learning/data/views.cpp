// SPDX-License-Identifier: Apache-2.0
#include "data/views.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/error.hpp"
#include "data/images.hpp"

namespace eqt::data {
namespace {

constexpr Named<TestViews> kTestViews[] = {
    {TestViews::plain, "none", "the picture as it is"},
    {TestViews::flip, "flip", "the mean of the outputs for the picture and its mirror image"},
    {TestViews::flip_shift, "flip-shift",
     "half of that mean, and half of those for the picture shifted by a pixel, up and left or down "
     "and right"}};

constexpr std::array<View, 6> kShifted = {{{.shift = 0, .mirrored = false, .weight = 0.25f},
                                           {.shift = 0, .mirrored = true, .weight = 0.25f},
                                           {.shift = -1, .mirrored = false, .weight = 0.125f},
                                           {.shift = -1, .mirrored = true, .weight = 0.125f},
                                           {.shift = 1, .mirrored = false, .weight = 0.125f},
                                           {.shift = 1, .mirrored = true, .weight = 0.125f}}};
constexpr std::array<View, 2> kMirrored = {{{.shift = 0, .mirrored = false, .weight = 0.5f},
                                            {.shift = 0, .mirrored = true, .weight = 0.5f}}};
constexpr std::array<View, 1> kPlain = {{{}}};

}  // namespace

std::span<const Named<TestViews>> names_of(TestViews) { return kTestViews; }

std::span<const View> views_of(TestViews views) {
  switch (views) {
    case TestViews::plain:
      return kPlain;
    case TestViews::flip:
      return kMirrored;
    case TestViews::flip_shift:
      return kShifted;
  }
  fail(Kind::bug, "views {}", static_cast<int>(views));
}

void write_view(const Array& pictures, const View& view, Array& out) {
  const auto shape = image_shape(pictures.spec);
  EQT_CHECK(shape.has_value(), "views of {}", text_of(pictures.spec));
  const auto [channels, height, width] = *shape;
  if (std::max(view.shift, -view.shift) >= std::min(height, width))
    fail(Kind::usage,
         "evaluate.augment: expected pictures of at least 2 pixels a side, found {} x {}; set it "
         "to \"flip\" or \"none\"",
         height, width);
  const auto from = pictures.get<float>();
  const auto to = out.prepare<float>(pictures.spec, pictures.size());
  const auto depth = static_cast<std::size_t>(channels);
  const auto row_values = static_cast<std::size_t>(width) * depth;
  const std::size_t rows = from.size() / row_values;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto picture = i / static_cast<std::size_t>(height);
    const auto y = static_cast<int>(i % static_cast<std::size_t>(height));
    const std::size_t first = picture * static_cast<std::size_t>(height) +
                              static_cast<std::size_t>(reflected(y - view.shift, height));
    for (int x = 0; x < width; ++x) {
      const int column = reflected(x - view.shift, width);
      const auto source = static_cast<std::size_t>(view.mirrored ? width - 1 - column : column);
      std::copy_n(
          from.begin() + static_cast<std::ptrdiff_t>(first * row_values + source * depth), depth,
          to.begin() +
              static_cast<std::ptrdiff_t>(i * row_values + static_cast<std::size_t>(x) * depth));
    }
  }
}

}  // namespace eqt::data
