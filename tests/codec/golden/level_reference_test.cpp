// SPDX-License-Identifier: Apache-2.0
// All numbers of the reference about levels, if the folder EQT_SHARED has them.

#include <cstdlib>
#include <iostream>

#include "support/catch.hpp"
#include "support/level_vectors.hpp"

using namespace eqt::test;

TEST_CASE("all reference numbers hold", "[vectors]") {
  const char* shared = std::getenv("EQT_SHARED");
  if (shared == nullptr) {
    std::cout << "[eqt-skip] EQT_SHARED is not set: the reference numbers are not here\n";
    return;
  }
  const auto vectors = read_json(std::string(shared) + "/reference/vectors/vectors.json");
  check_elias(vectors);
  check_blocks(vectors);
  check_worst_cases(vectors);
  check_adversarial_vectors(vectors);
  check_monte_carlo(vectors);
  check_elasticity_sweep(vectors);
}
