// SPDX-License-Identifier: Apache-2.0
// Random numbers as a pure function of (run seed, step, rank, slice, index).
//
// A RandomKey names a stream; SplitMix64 turns it into two 32-bit stream constants, and each index
// is hashed with them by three multiply-xorshift rounds. There is no state, so any thread may
// compute any element, and vector kernels compute exactly the same words (random_words-inl.hpp).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "core/strata.hpp"

namespace eqt {

/// Values of RandomKey::slice that no tensor slice can have, one for each purpose.
enum class RandomPurpose : std::uint32_t {
  partition = 0xF0000001u,       // the samples of each rank
  shuffle = 0xF0000002u,         // the order of a rank's samples in an epoch
  augmentation = 0xF0000003u,    // crop offsets and flips
  synthetic = 0xF0000004u,       // synthetic data
  emulation = 0xF0000005u,       // gradients of emulated boards
  dropout = 0xF0000006u,         // values that training sets to 0; the block is the layer
  quality = 0xF0000007u,         // values on which a compressor's quality is measured
  length_buckets = 0xF0000008u,  // the order of batches of samples of about the same length
  link = 0xF0000009u,            // how much later messages of an emulated link arrive
  board_speed = 0xF000000Au,     // steps of emulated boards that take longer or shorter
  trial = 0xF000000Bu,           // values that are encoded only to see what a grade costs
  strata = 0xF000000Cu,          // the order of strata; and what ranks draw together, see Strata
};

struct RandomKey {
  std::uint64_t run_seed = 0;
  StepId step = 0;
  std::uint32_t rank = 0;
  std::uint32_t slice = 0;
};

inline RandomKey make_key(std::uint64_t run_seed, StepId step, std::uint32_t rank,
                          RandomPurpose purpose) {
  return {run_seed, step, rank, static_cast<std::uint32_t>(purpose)};
}

/// The random words of one key. For indices from 2^32 on, each block of 2^32 has its own constants,
/// so that no word repeats because an index wraps around.
class RandomStream {
 public:
  /// @param strata of the key's rank, for words by which it rounds against other ranks; it must
  /// outlive the stream. Null: it rounds by itself.
  explicit RandomStream(const RandomKey& key, std::uint32_t block = 0,
                        const Strata* strata = nullptr) noexcept;

  /// 32 random bits of the element `index` (within this stream's block of 2^32).
  std::uint32_t bits(std::uint32_t index) const noexcept {
    const std::uint32_t h = product(index);
    return h ^ (h >> 15);
  }

  /// bits() without the last mixing of high bits into low ones. Only the high bits are random
  /// enough, which suffices to compare with a threshold.
  std::uint32_t product(std::uint32_t index) const noexcept {
    std::uint32_t h = index * 0x9E3779B1u + first_;
    h = (h ^ (h >> 16)) * 0x21F0AAADu;
    h = (h ^ (h >> 15)) + second_;
    return h * multiplier_;
  }

  /// 32 random bits by which the element `index` is rounded, with or without strata.
  std::uint32_t rounding_bits(std::uint32_t index, bool is_negative) const noexcept {
    if (strata_ == nullptr) return bits(index);
    std::uint32_t base = 0;
    copy_strata(index, {&base, 1});
    const std::uint32_t word = stratified(product(index), base);
    return is_negative ? ~word : word;
  }

  /// Uniform in [0, 1) with 24 bits; a threshold test is biased by at most 2^-24.
  float uniform(std::uint32_t index) const noexcept {
    return static_cast<float>(bits(index) >> 8) * 0x1p-24f;
  }

  /// Uniform in [0, bound), by multiply-shift of 64 bits (bias below bound / 2^64). bound >= 1.
  std::uint64_t bounded(std::uint32_t index, std::uint64_t bound) const noexcept;

  std::uint32_t first() const noexcept { return first_; }            // added to the scaled index
  std::uint32_t second() const noexcept { return second_; }          // added before the last round
  std::uint32_t multiplier() const noexcept { return multiplier_; }  // of the last round

  /// Null: the stream has no strata, and the functions below are not called.
  const Strata* strata() const noexcept { return strata_; }
  std::uint32_t together() const noexcept { return together_; }  // added to the scaled run
  /// The strata of Strata::kRun values; `run` is a number that names them.
  const std::uint32_t* strata_of_run(std::uint32_t run) const noexcept {
    std::uint32_t h = run * 0x9E3779B1u + together_;
    h = (h ^ (h >> 16)) * 0x21F0AAADu;
    return strata_->run(h ^ (h >> 15));
  }
  /// bases[i]: the stratum of the element index + i, where each Strata::kRun elements from 0 on are
  /// a run. @pre the indices do not reach 2^32
  void copy_strata(std::uint32_t index, std::span<std::uint32_t> bases) const noexcept;
  /// The word of a positive value with this product and base; that of a negative one is the
  /// complement.
  std::uint32_t stratified(std::uint32_t product, std::uint32_t base) const noexcept {
    const std::uint32_t factor = strata_->factor();
    const std::uint32_t upper = (product >> 16) * (factor >> 16) >> 16;
    const std::uint32_t lower = (product & 0xFFFFu) * (factor & 0xFFFFu) >> 16;
    return base + (upper << 16 | lower);
  }

 private:
  std::uint32_t first_;
  std::uint32_t second_;
  std::uint32_t multiplier_ = 0xD35A2D97u;
  std::uint32_t together_ = 0;  // what the ranks of the group have drawn
  const Strata* strata_;
};

/// SplitMix64's output function: a bijection on 64 bits that maps neighbouring inputs far apart.
std::uint64_t mix64(std::uint64_t x) noexcept;

/// 0 ... count-1 in an order drawn from `key` (Fisher-Yates).
std::vector<std::size_t> random_permutation(const RandomKey& key, std::size_t count);

}  // namespace eqt
