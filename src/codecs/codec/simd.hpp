// SPDX-License-Identifier: Apache-2.0
// The instruction set of the vector kernels.

#pragma once

#include <string>

namespace eqt::codec {

/// Highway's name of the best target that this processor supports and that was compiled in:
/// "AVX3_ZEN4", "AVX2", "NEON", "SCALAR".
std::string simd_target();

/// Obeys allowed_instructions(). Before any kernel has run.
/// @throws Error{usage} as allowed_instructions()
void restrict_simd();

}  // namespace eqt::codec
