// SPDX-License-Identifier: Apache-2.0
// The menu of the compressor auto: grades like "e-elastiquant:4@0.75".

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

/// One way to encode a slice.
struct Grade {
  std::string name;  // as in the menu
  std::unique_ptr<Compressor> compressor;
};

inline constexpr std::size_t kLeastGrades = 2, kMostGrades = 16;

/// The grade that every slice has until something is measured, if the menu has it; else the one in
/// the menu's middle is.
inline constexpr std::string_view kStartGrade = "e-elastiquant:4@1";

/// Why options.menu is none: "expected ..., found ...; try ..."; "" if it is one. Members are
/// unbiased or casts, have no memory, and need nothing of other ranks.
std::string why_no_menu(const CompressorOptions& options);

/// The members in the menu's order, with options.bucket_size.
/// @pre why_no_menu(options) is empty
std::vector<Grade> make_menu(const CompressorOptions& options);

}  // namespace eqt::codec
