// SPDX-License-Identifier: Apache-2.0
// The settings that compressors are made from: keys of the config's section `compressor`, as typed
// values. A compressor reads the settings that its row names and ignores the others.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"

namespace eqt {
class Strata;
}

namespace eqt::codec {

/// The norm scales a bucket's values into [-1, 1].
enum class Norm { l2, max };
std::span<const Named<Norm>> names_of(Norm);

/// The coding turns level indices, or floats, into bits.
enum class Coding {
  fixed,      // sign and index in `bits` bits each, packed
  elias,      // Elias omega: the shorter of sparse (gaps) and dense, per bucket
  huffman,    // canonical Huffman with the table in the payload, per bucket
  rans,       // interleaved rANS with the frequencies in the payload, per bucket
  automatic,  // the shortest of the above entropy codes, per bucket
  lossless    // none and bf16: exponents by rANS, per block (lossless/lossless.hpp)
};
std::span<const Named<Coding>> names_of(Coding);
/// The codings of level indices: all but `lossless`.
std::span<const Named<Coding>> level_codings();

/// Nonzero levels l_1 < ... < l_n = 1 between which values are rounded stochastically.
enum class LevelFamily {
  sinh,         // sinh(j theta) / sinh(n theta)
  exponential,  // p^(n - j)
  mulaw,        // ((1 + mu)^(j/n) - 1) / mu
  general,      // any increasing table
  adaptive      // starts as sinh; fitted to the gradients of the run (ALQ)
};
/// A family of level tables. Its elasticity e is the one parameter of its levels.
struct LevelFamilyRow {
  LevelFamily value;
  std::string_view name;
  std::string_view about;
  std::string_view elasticity;  // what e is, for messages; "" = it has none
  double most_elasticity = 0;   // e > 0, and at most this or, if excluded, below it
  bool most_is_excluded = false;
  /// l_0 ... l_n. Null where there is no e.
  std::vector<double> (*make)(int n, double e) = nullptr;
};
std::span<const LevelFamilyRow> names_of(LevelFamily);

/// The rounding says how a value goes to one of the two levels around it.
enum class Rounding {
  independent,  // at random, by each rank for itself, as in the papers
  correlated,   // at random, against the other ranks (core/strata.hpp)
  nearest       // to the nearest level; error feedback keeps the rest (rate/rate_codec.hpp)
};
std::span<const Named<Rounding>> names_of(Rounding);
/// Returns the strata by which a codec of this rounding draws, of those of its context.
inline const Strata* strata_for(Rounding rounding, const Strata* given) noexcept {
  return rounding == Rounding::correlated ? given : nullptr;
}

/// The units that ATOMO samples: singular triples or single values.
enum class Atoms { spectral, entrywise };
std::span<const Named<Atoms>> names_of(Atoms);

/// The granularity says what is compressed as one vector.
enum class Granularity { layer, model };
std::span<const Named<Granularity>> names_of(Granularity);

inline constexpr double kLeastRate = 0.02, kMostRate = 8;  // [bits per value]

/// How tensors are sent that are too small to be compressed.
enum class SmallTensors { float32, int8 };
std::span<const Named<SmallTensors>> names_of(SmallTensors);

struct CompressorOptions {
  int bits = 4;                    // 2 ... 8, sign included
  std::size_t bucket_size = 8192;  // [values] that share a norm or a step
  Norm norm = Norm::l2;
  LevelFamily levels = LevelFamily::sinh;
  // sinh, adaptive: theta; exponential: p in (0, 1); mulaw: mu > 0. Unset: the optimum
  std::optional<double> elasticity = {};
  Coding coding = Coding::fixed;
  std::vector<double> table = {};   // general: l_1 < ... < l_n = 1
  std::optional<double> rate = {};  // bits per value, all counted; unset: bits and elasticity rule
  double slice_bits = 0;            // beside those of the rate, for each slice (divide_bits())
  Rounding rounding = Rounding::independent;
  Atoms atoms = Atoms::spectral;
  int rank = 2;           // 1 ... 32: of the factors, or atoms kept on average
  double threshold = 0;   // 0: chosen so that about max(1, floor(density * count)) values are sent
  double density = 0.01;  // fraction kept, k = max(1, floor(density * count))
  int value_bits = 32;    // 1 ... 8, 16 or 32: of a value that is sent (sparse/value_coding.hpp)
  bool unbiased = false;  // scaled by count / k, for use without error feedback
  // Error feedback may ask for scales with which the decoded values are nearest to the encoded
  // ones, instead of those without a bias. Level codecs, terngrad and atomo have them.
  bool damped = false;
  double clip = 2.5;  // at this many standard deviations of the slice; 0 = never
  Granularity granularity = Granularity::layer;
  // auto: grades to choose from (mixed/menu.hpp)
  std::vector<std::string> menu = {"e-elastiquant:3@1",
                                   "e-elastiquant:4@0.75",
                                   "e-elastiquant:4@1",
                                   "e-elastiquant:5@1",
                                   "e-elastiquant:6@1",
                                   "e-elastiquant:8@1",
                                   "bf16:lossless",
                                   "bf16",
                                   "none"};

  bool operator==(const CompressorOptions&) const = default;
};

/// A member of CompressorOptions.
enum class Option {
  bits,
  bucket_size,
  norm,
  levels,
  elasticity,
  coding,
  table,
  rate,
  rounding,
  atoms,
  rank,
  threshold,
  density,
  value_bits,
  unbiased,
  clip,
  granularity,
  menu
};

/// Some of the options.
class OptionSet {
 public:
  constexpr OptionSet() = default;
  constexpr OptionSet(std::initializer_list<Option> options) {
    for (const Option option : options) bits_ |= bit(option);
  }
  constexpr bool has(Option option) const { return (bits_ & bit(option)) != 0; }

 private:
  static constexpr std::uint32_t bit(Option option) {
    return std::uint32_t{1} << static_cast<int>(option);
  }
  std::uint32_t bits_ = 0;
};

}  // namespace eqt::codec
