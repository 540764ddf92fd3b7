// SPDX-License-Identifier: Apache-2.0
// The committed excerpt of independently computed numbers.

#include <fstream>

#include "support/catch.hpp"
#include "support/theory_vectors.hpp"

using namespace eqt::test;

namespace {

nlohmann::json excerpt() {
  std::ifstream file(EQT_SOURCE_DIR "/tests/theory/golden/vectors_theory.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("worst cases match the table to 1e-6", "[vectors]") { check_worst_case_rows(excerpt()); }
TEST_CASE("the worst vectors reach their ratios", "[vectors]") { check_worst_vectors(excerpt()); }
TEST_CASE("expected code lengths and their parts match", "[vectors]") {
  check_block_lengths(excerpt(), excerpt().at("v8").get<std::vector<float>>());
}
TEST_CASE("bounds, entropies and published estimates match", "[vectors]") {
  check_length_bounds(excerpt());
}
TEST_CASE("guarantees of training match", "[vectors]") { check_guarantees(excerpt()); }
