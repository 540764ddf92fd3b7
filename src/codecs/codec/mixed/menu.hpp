// SPDX-License-Identifier: Apache-2.0
// The menu of the compressor auto: grades like "e-elastiquant:4@0.75".

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

/// The grade to start with, if the menu has it; else it is the one in the menu's middle.
inline constexpr std::string_view kStartGrade = "e-elastiquant:4@1";

/// Why options.menu is none: "expected ..., found ...; try ..."; "" if it is one. Members are
/// unbiased or casts, have no memory, and need nothing of other ranks.
std::string why_no_menu(const CompressorOptions& options);

/// The members in the menu's order, with options.bucket_size.
/// @pre why_no_menu(options) is empty
Menu make_menu(const CompressorOptions& options);

/// The elasticity of smallest cost or worst case, as the compressor itself chooses it.
/// @pre row is elastiquant or e-elastiquant, and options.levels has an elasticity
double best_elasticity(const CompressorRow& row, const CompressorOptions& options);

}  // namespace eqt::codec
