// SPDX-License-Identifier: Apache-2.0
#include "config/keys_read.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/fields.hpp"

namespace eqt::config {

void require_default(const RunConfig& config, std::string_view chosen_by, std::string_view key,
                     std::string_view chosen, const std::vector<KeyReader>& readers,
                     const std::string& origin) {
  const std::string path = fmt::format("{}.{}", chosen_by.substr(0, chosen_by.rfind('.')), key);
  const Field* const field = find_field(path);
  EQT_CHECK(field != nullptr, "\"{}\" of {} reads {}, which is no key", chosen, chosen_by, path);
  const Json found = field->read(config);
  if (found == field->read(RunConfig{})) return;
  std::string names;
  for (const KeyReader& reader : readers)
    if (reader.reads) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", reader.name);
  fail(Kind::usage, "{}: expected {} {} only with {} {}, found it with \"{}\"; leave it out",
       origin, path, shown(found), chosen_by, names, chosen);
}

}  // namespace eqt::config
