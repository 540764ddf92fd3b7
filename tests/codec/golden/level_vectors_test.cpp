// SPDX-License-Identifier: Apache-2.0
// The committed excerpt of independently computed numbers.

#include "support/level_vectors.hpp"
#include "support/catch.hpp"

using namespace eqt::test;

namespace {
nlohmann::json excerpt() {
  return read_json(EQT_SOURCE_DIR "/tests/codec/golden/vectors_levels.json");
}
}  // namespace

TEST_CASE("Elias codes match the table", "[vectors]") { check_elias(excerpt()); }
TEST_CASE("levels, variances and roundings match the numbers", "[vectors]") {
  check_blocks(excerpt());
}
TEST_CASE("worst cases and best elasticities match the table", "[vectors]") {
  check_worst_cases(excerpt());
}
TEST_CASE("adversarial vectors attain the worst case", "[vectors]") {
  check_adversarial_vectors(excerpt());
}
TEST_CASE("exact variances match simulations", "[vectors]") { check_monte_carlo(excerpt()); }
TEST_CASE("the Gaussian model matches the elasticity sweep", "[vectors]") {
  check_elasticity_sweep(excerpt());
}
