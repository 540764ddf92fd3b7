// SPDX-License-Identifier: Apache-2.0
#include "config/compressor_settings.hpp"

#include <nlohmann/json.hpp>

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

}  // namespace eqt::config
