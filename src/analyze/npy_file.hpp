// SPDX-License-Identifier: Apache-2.0
// Reading of NumPy's array files, of which nothing is believed.
//
// Source   NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays", versions 1 to 3

#pragma once

#include <string>
#include <vector>

namespace eqt::analyze {

/// The values of a one-dimensional array of little-endian float32.
/// @throws Error{data} for a file that cannot be read, is no such array, is longer or shorter than
/// it says, or holds a value that is not finite
std::vector<float> read_npy(const std::string& path);

}  // namespace eqt::analyze
