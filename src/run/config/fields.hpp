// SPDX-License-Identifier: Apache-2.0
// The table of every config key.

#pragma once

#include <string_view>
#include <vector>

#include "config/field.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

using Field = FieldOf<RunConfig>;

/// Every key, in the order of the documentation.
const std::vector<Field>& fields();

/// nullptr if there is no such key.
const Field* find_field(std::string_view key);

/// "model", "data", "data.partition", ...: each with one line about it, in the order of fields().
const std::vector<Choice>& sections();
bool is_section(std::string_view key);

}  // namespace eqt::config
