// SPDX-License-Identifier: Apache-2.0
// What to say of a compressor whose grades a run chooses.

#pragma once

#include <string>

#include "config/compressor_keys.hpp"

namespace eqt::config {

/// The setting that makes a run choose grades: compressor.bits "auto".
/// @pre compressor.adapts_grades()
std::string setting_of_grades(const CompressorConfig& compressor);

/// Returns a sentence, for verbs that do not train, that says which grade stands for those that a
/// run would choose; "" if it would not choose any.
std::string note_on_grades(const CompressorConfig& compressor);

}  // namespace eqt::config
