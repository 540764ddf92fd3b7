// SPDX-License-Identifier: Apache-2.0
// Shared by the config tests.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "support/refusal.hpp"

namespace eqt::config::test {

inline RunConfig parse(const std::string& json, const std::vector<std::string>& sets = {}) {
  return parse_config(json, "a.json", sets);
}

/// The message of the usage error that a config must give; fails the test if there is none.
inline std::string rejection(const std::string& json, const std::vector<std::string>& sets = {}) {
  INFO(json);
  return eqt::test::refusal(Kind::usage, [&] { parse(json, sets); });
}

}  // namespace eqt::config::test
