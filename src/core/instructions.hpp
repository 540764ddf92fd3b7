// SPDX-License-Identifier: Apache-2.0
// Which instructions this process may use.

#pragma once

namespace eqt {

/// True if the environment has EQT_SIMD=baseline: kernels use only instructions that every
/// processor of this architecture has. Results are the same, which can so be seen on one machine.
/// @throws Error{usage} for another value
bool baseline_only();

}  // namespace eqt
