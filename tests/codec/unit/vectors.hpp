// SPDX-License-Identifier: Apache-2.0
// The published reference numbers: the excerpt in this repository, and the whole file in the folder
// that the environment variable EQT_SHARED names.

#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/catch.hpp"

namespace eqt::codec::testing {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

template <typename Check>
void for_each_vector_file(Check check, const std::string& excerpt = "vectors_basic.json") {
  check(read_json(EQT_SOURCE_DIR "/tests/codec/golden/" + excerpt));
  if (const char* shared = std::getenv("EQT_SHARED")) {
    check(read_json(std::string(shared) + "/reference/vectors/vectors.json"));
  }
}

}  // namespace eqt::codec::testing
