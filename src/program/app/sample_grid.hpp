// SPDX-License-Identifier: Apache-2.0
// The first images of a batch in a grid, as the network's input.

#pragma once

#include "data/dataset.hpp"
#include "metrics/records.hpp"

namespace eqt::app {

/// True for a batch of pictures of 1 or 3 channels.
bool has_samples_to_show(const data::Batch& batch);

/// Draws up to 8 x 8 images in reading order, with a white pixel between them. Each channel is
/// scaled so that its smallest value in the batch is black and its largest white, which undoes the
/// normalisation if images use the whole range.
/// @pre has_samples_to_show()
metrics::ImageRecord sample_grid(const data::Batch& batch);

}  // namespace eqt::app
