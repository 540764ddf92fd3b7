// SPDX-License-Identifier: Apache-2.0
// The views of a test picture whose outputs are averaged.

#pragma once

#include <cstdint>
#include <span>

#include "core/catalogue.hpp"
#include "data/batch.hpp"

namespace eqt::data {

/// TestViews says what a network sees of a test picture: the picture; that and its mirror image
/// (half each); or also both shifted by a pixel up and left, and down and right (a quarter each
/// with its mirror image, and the picture that is not shifted a half).
/// Source  K. Jordan, arXiv:2404.00498, section 3.7
enum class TestViews : std::uint8_t { plain, flip, flip_shift };
std::span<const Named<TestViews>> names_of(TestViews);

struct View {
  int shift = 0;  // [pixels] down and to the right; what comes in is the picture's own, mirrored
  bool mirrored = false;
  float weight = 1;
};

/// The weights add up to 1.
std::span<const View> views_of(TestViews views);

/// Writes a view of each picture of the batch to `out`, in its memory.
/// @param pictures (n, h, w, c), float32
/// @throws Error{usage} if a side is too short for the shift
void write_view(const Array& pictures, const View& view, Array& out);

}  // namespace eqt::data
