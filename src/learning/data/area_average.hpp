// SPDX-License-Identifier: Apache-2.0
// Smaller pictures by area averaging.

#pragma once

#include "data/image_set.hpp"

namespace eqt::data {

/// Pictures of `side` x `side` pixels: each is the mean of the area that it covers in the original,
/// rounded to the nearest byte, halves upwards. All arithmetic is in whole numbers, so the bytes
/// are the same on every machine.
/// @pre 0 < side <= height and width of the pictures
LabelledBytes area_average(const LabelledBytes& pictures, int side);

}  // namespace eqt::data
