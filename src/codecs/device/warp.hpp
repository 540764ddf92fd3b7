// SPDX-License-Identifier: Apache-2.0
// What a kernel's body is written over: a warp of 32 lanes, and a group of warps that share a few
// bytes.
//
// A body is a template over the classes Warp and Group. HostWarp and HostGroup run it on the host,
// lane after lane and warp after warp; the classes in cuda_queue.cu run it on a device, where each
// lane is a thread. A body may branch only on values that all lanes of a warp (in a group: all
// warps) share, except inside each().

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __CUDACC__
#define EQT_KERNEL __device__ __forceinline__
#define EQT_KERNEL_ONCE __device__ __forceinline__
#define EQT_UNROLL _Pragma("unroll")
#else
#define EQT_KERNEL inline
#define EQT_KERNEL_ONCE [[gnu::noinline]] inline  // many calls, which the emulation need not unroll
#define EQT_UNROLL
#endif

namespace eqt::device {

inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kMaxGroup = 16;      // [warps]
inline constexpr unsigned kTileValues = 1024;  // that a warp takes

/// Shared by the warps of a group.
struct GroupMemory {
  double sums[kLanes];
  std::uint32_t largest[kMaxGroup];
};

EQT_KERNEL std::uint32_t bits_of(float x) {
#ifdef __CUDACC__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

EQT_KERNEL float float_of(std::uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

template <typename T>
EQT_KERNEL T least(T a, T b) {
  return b < a ? b : a;
}

/// Sets bits of a word that several warps may set.
EQT_KERNEL void set_flags(std::uint32_t* flags, std::uint32_t bits) {
#ifdef __CUDACC__
  atomicOr(flags, bits);
#else
  *flags |= bits;
#endif
}

/// Little-endian words at any address; `aligned` tells that it is a multiple of 4.
EQT_KERNEL std::uint32_t load_word(const std::byte* from, bool aligned) {
#ifdef __CUDACC__
  if (aligned) return *reinterpret_cast<const std::uint32_t*>(from);
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k) word |= static_cast<std::uint32_t>(from[k]) << 8 * k;
  return word;
#else
  static_cast<void>(aligned);
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
#endif
}

EQT_KERNEL void store_word(std::byte* to, std::uint32_t word, bool aligned) {
#ifdef __CUDACC__
  if (aligned) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
    return;
  }
  for (int k = 0; k < 4; ++k) to[k] = static_cast<std::byte>(word >> 8 * k);
#else
  static_cast<void>(aligned);
  std::memcpy(to, &word, sizeof word);
#endif
}

EQT_KERNEL bool is_aligned(const void* at, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

/// Four neighbouring values of one lane.
struct Four {
  float v[4];
};

/// The first `count` of four values, the others 0. `aligned`: `from` is a multiple of 16.
EQT_KERNEL Four load_four(const float* from, unsigned count, bool aligned) {
#ifdef __CUDACC__
  if (aligned && count >= 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    return {{all.x, all.y, all.z, all.w}};
  }
#else
  static_cast<void>(aligned);
#endif
  Four four = {{0, 0, 0, 0}};
  EQT_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) four.v[k] = from[k];
  }
  return four;
}

EQT_KERNEL void store_four(float* to, const Four& four, unsigned count, bool aligned) {
#ifdef __CUDACC__
  if (aligned && count >= 4) {
    *reinterpret_cast<float4*>(to) = make_float4(four.v[0], four.v[1], four.v[2], four.v[3]);
    return;
  }
#else
  static_cast<void>(aligned);
#endif
  EQT_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) to[k] = four.v[k];
  }
}

/// x * x + sum, where x has at most 26 bits, so that the product is exact.
EQT_KERNEL double add_square(double x, double sum) {
#ifdef __CUDACC__
  return __fma_rn(x, x, sum);
#else
  return x * x + sum;
#endif
}

/// One value per lane.
template <typename T>
struct HostLanes {
  T value[kLanes];
  T& operator[](unsigned lane) { return value[lane]; }
  const T& operator[](unsigned lane) const { return value[lane]; }
};

class HostWarp {
 public:
  template <typename T>
  using Lanes = HostLanes<T>;

  /// f(lane) for every lane.
  template <typename F>
  void each(const F& f) const {
    for (unsigned lane = 0; lane < kLanes; ++lane) f(lane);
  }

  /// All lanes get what lane `lane` has.
  template <typename T>
  T from_lane(const Lanes<T>& x, unsigned lane) const {
    return x[lane];
  }

  /// Lane l gets what lane at[l] mod 32 has.
  template <typename T>
  Lanes<T> looked_up(const Lanes<T>& x, const Lanes<std::uint32_t>& at) const {
    Lanes<T> found;
    for (unsigned lane = 0; lane < kLanes; ++lane) found[lane] = x[at[lane] % kLanes];
    return found;
  }

  /// Lane l gets what lane l ^ 16 has.
  Lanes<std::uint32_t> swap_halves(const Lanes<std::uint32_t>& x) const {
    Lanes<std::uint32_t> swapped;
    for (unsigned lane = 0; lane < kLanes; ++lane) swapped[lane] = x[lane ^ 16u];
    return swapped;
  }

  /// Bit l is lane l's.
  std::uint32_t ballot(const Lanes<bool>& x) const {
    std::uint32_t bits = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) bits |= std::uint32_t{x[lane]} << lane;
    return bits;
  }

  std::uint32_t largest(const Lanes<std::uint32_t>& x) const {
    std::uint32_t most = 0;
    for (const std::uint32_t lane : x.value) most = most < lane ? lane : most;
    return most;
  }

  /// All lanes' bits.
  std::uint32_t united(const Lanes<std::uint32_t>& x) const {
    std::uint32_t bits = 0;
    for (const std::uint32_t lane : x.value) bits |= lane;
    return bits;
  }

  /// Sum k += sum k+w for k < w, w = kFirst, kFirst / 2, ... 1; then sum 0.
  template <unsigned kFirst>
  double folded(Lanes<double> x) const {
    for (unsigned w = kFirst; w > 0; w /= 2) {
      for (unsigned k = 0; k < w; ++k) x[k] += x[k + w];
    }
    return x[0];
  }
};

/// Warps that work on one bucket, each with a State of its own.
template <typename State>
class HostGroup {
 public:
  explicit HostGroup(unsigned warps) : states_(warps) {}

  unsigned warps() const { return static_cast<unsigned>(states_.size()); }
  GroupMemory& memory() { return memory_; }

  /// f(warp, index of the warp, its state) for every warp.
  template <typename F>
  void each(const F& f) {
    for (unsigned k = 0; k < warps(); ++k) f(warp_, k, states_[k]);
  }

  /// All warps wait for each other, after which each sees what others wrote to memory().
  void wait() {}

  /// Calls f for one warp after another; each sees what those before it wrote to memory().
  template <typename F>
  void in_order(const F& f) {
    each(f);
  }

 private:
  HostWarp warp_;
  GroupMemory memory_ = {};
  std::vector<State> states_;
};

}  // namespace eqt::device
