// SPDX-License-Identifier: Apache-2.0
// The menu of the compressor auto: grades like "e-elastiquant:4@0.75", "bf16:lossless" or, with a
// memory, "e-elastiquant:rate=0.5", and grades of one compressor whose bits or elasticity are found
// out during the run.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/compressor.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

/// One way to encode a slice.
struct Grade {
  std::string name;  // as in the menu
  std::unique_ptr<Compressor> compressor;
};

/// Grades, and which of them every slice has until something is measured.
struct Menu {
  std::vector<Grade> grades;
  std::size_t start = 0;
};

inline constexpr std::size_t kLeastGrades = 2, kMostGrades = 16;

/// The grades to start with, if the menu has one of them; else it is the one in the menu's middle.
inline constexpr std::string_view kStartGrades[] = {"e-elastiquant:4@1", "e-elastiquant:rate=1"};

/// The menu that stands for the default one with error feedback: rates, bf16, of both codings, and
/// none.
std::vector<std::string> menu_of_rates();

/// Why options.menu is none: "expected ..., found ...; try ..."; "" if it is one. Members need
/// nothing of other ranks, and are unbiased or casts; or they are rates, whose rounding to nearest
/// needs error feedback, or casts, or lossless.
std::string why_no_menu(const CompressorOptions& options);

/// The members in the menu's order, with options.bucket_size.
/// @pre why_no_menu(options) is empty
Menu make_menu(const CompressorOptions& options);

/// The elasticity of smallest cost or worst case, as the compressor itself chooses it.
/// @pre row is elastiquant or e-elastiquant, and options.levels has an elasticity
double best_elasticity(const CompressorRow& row, const CompressorOptions& options);

/// The fields say which options are open.
struct OpenOptions {
  bool bits = false;        // then the elasticity is, too, unless it is given as a number
  bool elasticity = false;  // at these bits

  bool any() const { return bits || elasticity; }
  bool operator==(const OpenOptions&) const = default;
};

/// Factors of the best elasticity: with open bits, and without.
inline constexpr double kFactorsOfBits[] = {0.5, 0.75, 1, 1.5};
inline constexpr double kFactors[] = {0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.4, 1.7, 2};

/// Why they cannot be open: "expected ..., found ...; try ..."; "" if they can.
std::string why_not_open(const CompressorRow& row, const CompressorOptions& options,
                         const OpenOptions& open);

/// The grades, from the fewest bits, with the compressor's other options as they are.
///  open bits with a given elasticity: 2 to 8 bits
///  open bits: of 2 to 8 bits with kFactorsOfBits those on the lower convex hull of bits per value
///    and variance of Gaussian values (gaussian_cost()), at most kMostGrades
///  open elasticity: kFactors, each elasticity once
/// The one to start with has 4 bits and the factor nearest to 1.
/// @pre why_not_open() is empty
Menu open_menu(const CompressorRow& row, const CompressorOptions& options, const OpenOptions& open);

/// MixedGrades of the above.
/// @throws Error{usage} for what why_not() or why_not_open() refuses
std::unique_ptr<Compressor> make_open(const CompressorRow& row, const CompressorOptions& options,
                                      const OpenOptions& open);

}  // namespace eqt::codec
