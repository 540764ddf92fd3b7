// SPDX-License-Identifier: Apache-2.0
// The scratch arrays of the low-rank codecs. Arrays that one call uses at the same time have
// different slots.

#pragma once

#include <cstdint>

#include "core/workspace.hpp"

namespace eqt::codec {

// atomo: a matrix with zeros up to the end of its last row; or the indices of the atoms kept.
inline constexpr ScratchArray<float> kPaddedMatrix{0};
inline constexpr ScratchArray<std::uint32_t> kKeptIndices{0};
// orthonormalise(): the vectors in float64.
inline constexpr ScratchArray<double> kExactVectors{0};

// spectrum(): the Gram matrix, its eigenvectors, and room for a block of rows.
inline constexpr ScratchArray<double> kGramMatrices{1};

inline constexpr ScratchArray<float> kLeftFactor{2};
inline constexpr ScratchArray<float> kRightFactor{3};

}  // namespace eqt::codec
