// Every compressor that a config may name is in the table that fuzzing runs over.

#include <algorithm>

#include "app/run_config.hpp"
#include "support/catch.hpp"
#include "support/decoder_table.hpp"

TEST_CASE("every compressor of the config has a line in support/decoder_table.cpp", "[fuzz]") {
  const auto table = eqt::test::decoder_table(64);
  for (const auto& choice : eqt::app::config_choices("compressor.name")) {
    INFO("expected a line for the compressor " << choice.name);
    CHECK(std::ranges::any_of(table, [&](const eqt::test::Decoder& decoder) {
      return eqt::codec::codec_name(decoder.compressor->id()) == choice.name;
    }));
  }
}

TEST_CASE("the table's names are different", "[fuzz]") {
  std::vector<std::string> names;
  for (const auto& decoder : eqt::test::decoder_table(64)) names.push_back(decoder.name);
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}
