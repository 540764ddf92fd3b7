// SPDX-License-Identifier: Apache-2.0
#include "int8/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1UL << 20)
#endif
#endif

#include "core/instructions.hpp"
#include "int8/tiles.hpp"

namespace eqt::int8 {

#if defined(__x86_64__)
namespace {

// __builtin_cpu_supports() asks the system as well whether it saves the registers; it knows
// avx512vnni in all compilers that we build with, but not avxvnni.
bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1u << 4;  // of EAX, leaf 7, subleaf 1
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_supports("avx2") || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || a < 1)
    return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

}  // namespace
#endif

std::span<const Named<Kernels>> names_of(Kernels) {
  static constexpr Named<Kernels> kNames[] = {
      {Kernels::scalar, "scalar", "plain loops, on any processor"},
      {Kernels::avx2_pair, "avx2-pair", "vpmaddwd on 16-bit copies"},
      {Kernels::avx512_vnni, "avx512-vnni", "vpdpbusd on 512 bits"},
      {Kernels::avx_vnni, "avx-vnni", "vpdpbusd on 256 bits"},
      {Kernels::neon_long, "neon-long", "smull, smlal, sadalp"},
      {Kernels::neon_dot, "neon-dot", "sdot"}};
  return kNames;
}

std::vector<Kernels> available() {
  const Instructions allowed = allowed_instructions();
  if (allowed == Instructions::baseline) return {Kernels::scalar};
  std::vector<Kernels> found;
#if defined(__x86_64__)
  if (allowed == Instructions::all) {
    if (has_avx512_vnni()) found.push_back(Kernels::avx512_vnni);
    if (has_avx_vnni()) found.push_back(Kernels::avx_vnni);
  }
  if (__builtin_cpu_supports("avx2")) found.push_back(Kernels::avx2_pair);
#elif defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) found.push_back(Kernels::neon_dot);
  found.push_back(Kernels::neon_long);
#endif
  found.push_back(Kernels::scalar);
  return found;
}

Kernels fastest_here() {
  static const Kernels fastest = available().front();
  return fastest;
}

const TileKernels* tiles_of(Kernels kernels) noexcept {
  switch (kernels) {
#if defined(__x86_64__)
    case Kernels::avx2_pair:
      return &kAvx2PairTiles;
    case Kernels::avx512_vnni:
      return &kAvx512VnniTiles;
    case Kernels::avx_vnni:
      return &kAvxVnniTiles;
#elif defined(__aarch64__)
    case Kernels::neon_long:
      return &kNeonLongTiles;
    case Kernels::neon_dot:
      return &kNeonDotTiles;
#endif
    default:
      return nullptr;
  }
}

std::size_t repeat_product(Kernels kernels, std::size_t repetitions) {
  const TileKernels* const tiles = tiles_of(kernels);
  return tiles == nullptr ? 0 : tiles->repeat(repetitions);
}

}  // namespace eqt::int8
