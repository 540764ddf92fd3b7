// SPDX-License-Identifier: Apache-2.0
// The families of instructions that the 8-bit convolutions are written for. All give the same bits.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/catalogue.hpp"

namespace eqt::int8 {

enum class Kernels { scalar, avx2_pair, avx512_vnni, avx_vnni, neon_long, neon_dot, amx_int8 };
std::span<const Named<Kernels>> names_of(Kernels);

/// Those that this processor runs, the system permits and allowed_instructions() has, the fastest
/// first; the last is scalar. The first call asks Linux for the tiles of AMX, for all threads of
/// the process: from then on an alternate signal stack must hold them too, about 11 KiB.
std::vector<Kernels> available();

/// The first of available().
Kernels fastest_here();

/// Repeats the family's multiply-add on registers alone, for its peak.
/// @return multiply-adds; 0 for scalar
std::size_t repeat_product(Kernels kernels, std::size_t repetitions);

struct TileKernels;
/// Null for scalar. @pre `kernels` is one of available()
const TileKernels* tiles_of(Kernels kernels) noexcept;

/// While it exists, this thread can run a family's inner loops.
class TileScope {
 public:
  explicit TileScope(const TileKernels& kernels);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileKernels& kernels_;
};

}  // namespace eqt::int8
