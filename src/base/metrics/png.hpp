// SPDX-License-Identifier: Apache-2.0
// Images as PNG files, by libpng.

#pragma once

#include <string>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// The image as a PNG with 8 bits per channel.
/// @pre 1 or 3 channels; as many pixels as the shape says, at least one
std::string png_of(const ImageRecord& image);

}  // namespace eqt::metrics
