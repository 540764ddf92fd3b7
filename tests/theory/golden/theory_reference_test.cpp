// SPDX-License-Identifier: Apache-2.0
// All numbers of the reference about theory, if the folder EQT_SHARED has them.

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "support/catch.hpp"
#include "support/theory_vectors.hpp"

using namespace eqt::test;

TEST_CASE("all reference numbers of theory hold", "[vectors]") {
  const char* shared = std::getenv("EQT_SHARED");
  if (shared == nullptr) {
    std::cout << "[eqt-skip] EQT_SHARED is not set: the reference numbers are not here\n";
    return;
  }
  std::ifstream file(std::string(shared) + "/reference/vectors/vectors.json");
  const auto vectors = nlohmann::json::parse(file);
  check_worst_case_rows(vectors);
  check_worst_vectors(vectors);
  check_block_lengths(vectors, vectors.at("common").at("v8").get<std::vector<float>>());
  check_length_bounds(vectors);
  check_guarantees(vectors);
}
