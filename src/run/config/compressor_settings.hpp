// SPDX-License-Identifier: Apache-2.0
// Compressors that a verb is asked about by name and by settings, without a config file; what it
// says of one whose grades a run chooses.

#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "config/run_config.hpp"
#include "core/error.hpp"

namespace eqt::config {

/// @param sets "compressor.key=JSON" each
/// @throws Error{usage} for a key of another section, or the compressor's name
void check_compressor_sets(const std::vector<std::string>& sets);

/// Returns the config of a run with this compressor and these settings, and defaults for the rest.
/// @param about the verb, for sentences
/// @throws Error{usage}
RunConfig compressor_config(const std::string& name, const std::vector<std::string>& sets,
                            const std::string& about);

/// The results of `make(name)` for each compressor that was asked for; if none was, for the `usual`
/// ones, without those that refuse the settings.
/// @throws Error{usage} as `make` does, or if none of the usual ones accepts the settings
template <typename Make>
auto asked_or_usual(const std::vector<std::string>& asked, const std::vector<std::string>& usual,
                    const Make& make) {
  std::vector<std::invoke_result_t<Make, const std::string&>> made;
  for (const std::string& name : asked) made.push_back(make(name));
  if (!asked.empty()) return made;
  std::string refusal;
  for (const std::string& name : usual) {
    try {
      made.push_back(make(name));
    } catch (const Error& error) {
      if (error.kind() != Kind::usage) throw;
      refusal = error.what();
    }
  }
  if (made.empty())
    fail(Kind::usage, "no compressor takes these settings; the last said: {}", refusal);
  return made;
}

/// The setting that makes a run choose grades: compressor.bits "auto".
/// @pre compressor.adapts_grades()
std::string setting_of_grades(const CompressorConfig& compressor);

/// Returns a sentence, for verbs that do not train, that says which grade stands for those that a
/// run would choose; "" if it would not choose any.
std::string note_on_grades(const CompressorConfig& compressor);

}  // namespace eqt::config
