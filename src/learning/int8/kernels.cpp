// SPDX-License-Identifier: Apache-2.0
#include "int8/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

#ifdef EQT_HAS_AMX_UNIT

/// The system saves the tiles only of processes that have asked for them. It refuses where it does
/// not know them, where a sandbox says so, and where an alternate signal stack of the process is
/// too small for them.
bool may_use_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

bool has_amx_int8() {
  constexpr unsigned kTilesAndInt8 = 3u << 24;           // of EDX, leaf 7
  constexpr unsigned kXsave = 1u << 27;                  // of ECX, leaf 1: the system uses XSAVE
  constexpr unsigned kSavedTiles = 1u << 17 | 1u << 18;  // of XCR0
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512_vnni() || __get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kXsave) == 0 ||
      __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTilesAndInt8) != kTilesAndInt8)
    return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kSavedTiles) != kSavedTiles) return false;
  static const bool permitted = may_use_tiles();
  return permitted;
}

#endif

}  // namespace
#endif

std::span<const Named<Kernels>> names_of(Kernels) {
  static constexpr Named<Kernels> kNames[] = {
      {Kernels::scalar, "scalar", "plain loops, on any processor"},
      {Kernels::avx2_pair, "avx2-pair", "vpmaddwd on 16-bit copies"},
      {Kernels::avx512_vnni, "avx512-vnni", "vpdpbusd on 512 bits"},
      {Kernels::avx_vnni, "avx-vnni", "vpdpbusd on 256 bits"},
      {Kernels::neon_long, "neon-long", "smull, smlal, sadalp"},
      {Kernels::neon_dot, "neon-dot", "sdot"},
      {Kernels::amx_int8, "amx-int8", "tdpbssd on tiles of 16 rows of 64 bytes"}};
  return kNames;
}

std::vector<Kernels> available() {
  const Instructions allowed = allowed_instructions();
  if (allowed == Instructions::baseline) return {Kernels::scalar};
  std::vector<Kernels> found;
#if defined(__x86_64__)
#ifdef EQT_HAS_AMX_UNIT
  if (allowed == Instructions::all && has_amx_int8()) found.push_back(Kernels::amx_int8);
#endif
  if (allowed == Instructions::all || allowed == Instructions::avx512) {
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
#ifdef EQT_HAS_AMX_UNIT
    case Kernels::amx_int8:
      return &kAmxInt8Tiles;
#endif
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

TileScope::TileScope(const TileKernels& kernels) : kernels_(kernels) {
  if (kernels_.begin != nullptr) kernels_.begin();
}

TileScope::~TileScope() {
  if (kernels_.end != nullptr) kernels_.end();
}

}  // namespace eqt::int8
