// SPDX-License-Identifier: Apache-2.0
// Strata: the parts of [0, 1) from which ranks take their random numbers when they round the same
// values against each other, so that the errors of their roundings cancel in the mean.
//
// Source   A. T. Suresh et al., "Correlated Quantization for Distributed Mean Estimation and
//          Optimization", ICML 2022, arXiv:2203.04925, algorithm OneDimOneBitCQ:
//          u_i = (pi(i) + w_i) / n, pi a permutation of the ranks that all of them draw alike
// Symbols  n ranks of a group; q strata, n or the next prime or power of two; r this rank's index
// Method   u_r = (s + w_r) / q for each value, s = a r + b in the field of q elements. (a, b) is
//          drawn uniformly, a != 0, and is the same on all ranks, so the strata of any two ranks
//          are uniform among all pairs of different ones. Ranks 2 k and 2 k + 1 share w but for
//          the sign: w and 1 - w. Negative values take 1 - u.
// Law      each u_r is uniform on [0, 1), to within 2^-16; for any two ranks and any thresholds
//          a, b: P(u < a, u' < b) <= a b. So every codec that is unbiased stays so, and the
//          variance of the mean of any vectors is at most that of independent rounding.
// Differs  from the paper: the strata of more than two ranks are only pairwise uniform (the
//          variance of a mean depends on pairs alone), the w of two ranks is antithetic, which
//          makes n = 2 the best that two ranks can do, and more than kMostRanks ranks form groups
//          that do not know of each other. The paper draws a permutation for each value; here runs
//          of kRun values take successive ones from a table, from a place that is drawn

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace eqt {

class Strata {
 public:
  static constexpr std::uint32_t kMostRanks = 32;  // of a group
  static constexpr std::size_t kRun = 64;          // successive values that are drawn together

  /// @pre rank < ranks; the rank is not alone in its group
  Strata(std::uint32_t rank, std::uint32_t ranks);

  /// The strata of kRun values, as the words at which they begin; all ranks of the group stand at
  /// the same place. @param word names the place: 32 bits that the group has drawn
  const std::uint32_t* run(std::uint32_t word) const noexcept {
    return bases_.data() + ((std::uint64_t{word} * places_) >> 32);
  }
  /// All that run() chooses from, for copies elsewhere: run(word) is at word * places() / 2^32.
  std::span<const std::uint32_t> bases() const noexcept { return bases_; }
  std::uint32_t places() const noexcept { return places_; }

  /// A random word times this, half by half, the upper 16 bits of each product: a word within a
  /// stratum.
  std::uint32_t factor() const noexcept { return factor_; }

  /// The first of the two ranks that share w.
  std::uint32_t pair() const noexcept { return pair_; }
  /// True of the second of them, which takes 1 - w.
  bool is_second() const noexcept { return is_second_; }
  /// The first rank of the group, which names what the group draws.
  std::uint32_t group() const noexcept { return group_; }

 private:
  std::uint32_t factor_, pair_, group_;
  bool is_second_;
  std::uint32_t places_ = 0;
  std::vector<std::uint32_t> bases_;  // by place, kRun - 1 more than places
};

/// The strata of one of `ranks` ranks, 0 ... ranks - 1, which are made once and stay; null for a
/// rank that has no other to round against.
const Strata* strata_of(std::uint32_t rank, std::uint32_t ranks);

}  // namespace eqt
