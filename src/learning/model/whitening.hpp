// SPDX-License-Identifier: Apache-2.0
// The first layer of networks that whiten patches of pictures. No torch.

#pragma once

#include <span>
#include <vector>

#include "data/images.hpp"

namespace eqt::model {

inline constexpr int kWhitenedSide = 2;  // [pixels] of the patches of networks in models.def

/// Filters whose outputs on patches of the pictures have second moments of about 1 and no
/// correlation, each with both signs: (2 * side * side * c, side, side, c), c the channels.
///
/// Source   K. Jordan, arXiv:2404.00498, section 3.1 and listing 4
/// Formula  the second moments of the patches are V diag(l) V'; filters are the columns of V,
///          divided by sqrt(l + 5e-4), then the same times -1
/// Differs  eigenvalues descend, and the largest number of an eigenvector is positive: so they do
///          not depend on a library
/// @param pictures (n, h, w, c), normalized
/// @throws Error{data} if all pictures are blank
std::vector<float> whitening_filters(std::span<const float> pictures, const data::ImageShape& shape,
                                     int side);

}  // namespace eqt::model
