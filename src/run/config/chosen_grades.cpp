// SPDX-License-Identifier: Apache-2.0
#include "config/chosen_grades.hpp"

#include <fmt/format.h>

#include "codec/mixed/mixed_grades.hpp"

namespace eqt::config {

std::string setting_of_grades(const CompressorConfig& compressor) {
  if (compressor.open.bits) return "compressor.bits \"auto\"";
  if (compressor.open.elasticity) return "compressor.elasticity \"measured\"";
  return "compressor.name \"auto\"";
}

std::string note_on_grades(const CompressorConfig& compressor) {
  if (!compressor.adapts_grades()) return "";
  const auto made = compressor.make();
  const codec::MixedGrades& grades = *made->mixed_grades();
  return fmt::format(
      "{}: with {} a run chooses bits and elasticity of each tensor; the figures here are those of "
      "the grade that it begins with, {}, and bounds those of its noisiest grade",
      compressor.name->name, setting_of_grades(compressor), grades.name_of(grades.start()));
}

}  // namespace eqt::config
