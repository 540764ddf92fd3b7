// SPDX-License-Identifier: Apache-2.0
// Grades of one compressor whose bits or elasticity are found out during the run.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/mixed/menu.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

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
