// SPDX-License-Identifier: Apache-2.0
#include "core/pattern.hpp"

#include <vector>

#include "support/catch.hpp"

using namespace eqt;

TEST_CASE("a pattern without wildcards matches its own text", "[pattern]") {
  CHECK(matches("fc.weight", "fc.weight"));
  CHECK_FALSE(matches("fc.weight", "fc.weights"));
  CHECK_FALSE(matches("fc.weight", "xfc.weight"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
}

TEST_CASE("a star stands for any characters, dots included", "[pattern]") {
  CHECK(matches("*", ""));
  CHECK(matches("layer1.*", "layer1.0.conv1.weight"));
  CHECK_FALSE(matches("layer1.*", "layer10.0.conv1.weight"));
  CHECK(matches("*.bias", "a.b.bias"));
  CHECK_FALSE(matches("*.bias", "bias"));
  CHECK(matches("*bn?.*", "layer1.0.bn2.weight"));
  CHECK(matches("a*b*c", "aXbYbZc"));
  CHECK_FALSE(matches("a*b*c", "aXcYb"));
  CHECK(matches("**", "x"));
}

TEST_CASE("a question mark stands for one character", "[pattern]") {
  CHECK(matches("bn?", "bn1"));
  CHECK_FALSE(matches("bn?", "bn"));
  CHECK_FALSE(matches("bn?", "bn12"));
}

TEST_CASE("one of several patterns is enough", "[pattern]") {
  const std::vector<std::string> patterns = {"a.*", "*.b"};
  CHECK(matches_any(patterns, "a.x"));
  CHECK(matches_any(patterns, "x.b"));
  CHECK_FALSE(matches_any(patterns, "x.a"));
  CHECK_FALSE(matches_any({}, "a"));
}
