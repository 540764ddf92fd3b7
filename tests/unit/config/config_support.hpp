// SPDX-License-Identifier: Apache-2.0
// Shared by the config tests.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

namespace eqt::config::test {

inline RunConfig parse(const std::string& json, const std::vector<std::string>& sets = {}) {
  return parse_config(json, "a.json", sets);
}

/// The message of the usage error that a config must give; fails the test if there is none.
inline std::string rejection(const std::string& json, const std::vector<std::string>& sets = {}) {
  INFO(json);
  try {
    parse(json, sets);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::usage);
    return error.what();
  }
  FAIL("accepted");
  return "";
}

}  // namespace eqt::config::test
