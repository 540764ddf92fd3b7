// SPDX-License-Identifier: Apache-2.0
// The families of instructions that the 8-bit convolutions are written for. All give the same bits.

#pragma once

#include <string_view>
#include <vector>

namespace eqt::int8 {

enum class Kernels {
  scalar,       // any processor
  avx2_pair,    // vpmaddwd on 16-bit copies
  avx512_vnni,  // vpdpbusd on 512 bits
  avx_vnni,     // vpdpbusd on 256 bits
  neon_long,    // smull, smlal, sadalp
  neon_dot,     // sdot
};

/// "scalar", "avx2-pair", "avx512-vnni", "avx-vnni", "neon-long", "neon-dot".
std::string_view name_of(Kernels kernels) noexcept;

/// Those that this processor runs, the fastest first; the last is scalar.
std::vector<Kernels> available();

/// The first of available().
Kernels fastest_here();

/// Repeats the family's multiply-add on registers alone, for its peak.
/// @return multiply-adds; 0 for scalar
std::size_t repeat_product(Kernels kernels, std::size_t repetitions);

struct TileKernels;
/// Null for scalar. @pre `kernels` is one of available()
const TileKernels* tiles_of(Kernels kernels) noexcept;

}  // namespace eqt::int8
