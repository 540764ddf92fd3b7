// SPDX-License-Identifier: Apache-2.0
#include "config/compressor_settings.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "codec/mixed/mixed_grades.hpp"

namespace eqt::config {

void check_compressor_sets(const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (!set.starts_with("compressor."))
      fail(Kind::usage,
           "--set \"{}\": expected a key of the section compressor, as in --set "
           "compressor.bits=8",
           set);
    if (set.starts_with("compressor.name="))
      fail(Kind::usage, "--set \"{}\": expected --compressor for the name", set);
  }
}

RunConfig compressor_config(const std::string& name, const std::vector<std::string>& sets,
                            const std::string& about) {
  const nlohmann::json document = {{"compressor", {{"name", name}}}};
  return parse_config(document.dump(), about, sets);
}

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
