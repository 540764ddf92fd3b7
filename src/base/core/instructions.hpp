// SPDX-License-Identifier: Apache-2.0
// Which instructions this process may use.

#pragma once

namespace eqt {

enum class Instructions { baseline, avx2, avx512, all };

/// Returns what the environment's EQT_SIMD allows: "baseline", which every processor of this
/// architecture has, or, on x86-64, those up to "avx2" or up to "avx512", which leaves out AMX;
/// all if it is not set. Results are the same, so that one machine shows what another does, and
/// how fast such instructions are.
/// @throws Error{usage} for another value
Instructions allowed_instructions();

}  // namespace eqt
