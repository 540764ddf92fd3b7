// Images as PNG files.

#pragma once

#include <string>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// The image as a PNG with 8 bits a channel, without interlacing or filters.
/// Source: Portable Network Graphics, W3C Recommendation of 10 November 2003, sections 5 and 11.
/// @pre 1 or 3 channels; as many pixels as the shape says
std::string png_of(const ImageRecord& image);

}  // namespace eqt::metrics
