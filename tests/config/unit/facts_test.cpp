// SPDX-License-Identifier: Apache-2.0
// The facts that ranks compare before training.

#include "config/facts.hpp"

#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;

TEST_CASE("equal facts have no differences", "[facts]") {
  const Facts facts = {{"version", "0.1.0"}, {"seed", "1"}};
  CHECK(differences(facts, facts).empty());
  CHECK(differences({}, {}).empty());
}

TEST_CASE("each difference is named with both values", "[facts]") {
  CHECK(differences({{"a", "1"}, {"b", "2"}, {"c", "3"}}, {{"a", "9"}, {"b", "2"}, {"c", "8"}}) ==
        "a 9 instead of 1, c 8 instead of 3");
  // Another version of the program may know other keys.
  CHECK(differences({{"a", "1"}, {"old", "2"}}, {{"a", "1"}, {"new", "3"}}) ==
        "new 3 instead of nothing, old nothing instead of 2");
}

TEST_CASE("facts are restored from their text", "[facts]") {
  const Facts facts = {{"a", "\"x\"\n"}, {"b", ""}, {"", "\xC3\xA4"}};
  CHECK(unpacked(packed(facts)) == facts);
  CHECK(unpacked(packed({})).empty());
}

TEST_CASE("a text that is no list of facts is a malformed message", "[facts]") {
  for (const std::string text : {"", "{}", "[1]", "[[]]", "[[\"a\"]]", "[[\"a\",1]]",
                                 "[[\"a\",\"b\"", "[[\"a\",\"b\",\"c\"]]", "\xFF"}) {
    INFO(text);
    try {
      unpacked(text);
      FAIL_CHECK("accepted");
    } catch (const eqt::Error& error) {
      CHECK(error.kind() == eqt::Kind::wire);
    }
  }
}

TEST_CASE("a config's facts are its keys, and differences of two configs are the keys that differ",
          "[facts]") {
  const Facts defaults = config_facts(parse("{}"));
  const Facts others = config_facts(parse(
      "{}", {"seed=2", "compressor.name=nuqsgd", "train.steps=3", "train.emulate_compute=[1, 2]"}));
  CHECK(others.size() == defaults.size());
  CHECK(differences(defaults, others) ==
        "seed 2 instead of 1, train.steps 3 instead of 0, train.emulate_compute [1.0,2.0] instead "
        "of null, compressor.name \"nuqsgd\" instead of \"none\"");
}
