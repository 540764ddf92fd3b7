// SPDX-License-Identifier: Apache-2.0
// The catalogue of compressors: numbers on the wire, options, rows that are added.

#include "codec/catalogue.hpp"

#include <map>
#include <set>

#include "support/catch.hpp"
#include "support/compressors.hpp"

using namespace eqt;
using namespace eqt::codec;

TEST_CASE("the numbers on the wire do not change", "[catalogue]") {
  const std::map<std::string_view, int> numbers = {
      {"none", 0},       {"fp16", 1},        {"bf16", 2},           {"qsgd", 3},
      {"qsgd-v", 4},     {"elastiquant", 5}, {"e-elastiquant", 6},  {"terngrad", 7},
      {"topk", 8},       {"dgc", 9},         {"int8", 10},          {"natural", 11},
      {"nuqsgd", 12},    {"alq", 13},        {"amq", 14},           {"randomk", 15},
      {"threshold", 16}, {"signsgd", 17},    {"ef-signsgd", 18},    {"onebit", 19},
      {"atomo", 20},     {"powersgd", 21},   {"int8-channels", 22}, {"auto", 24}};
  for (const auto& [name, number] : numbers)
    CHECK(static_cast<int>(CompressorRow::all().at(name)->id) == number);
}

TEST_CASE("every row makes its own compressor", "[catalogue]") {
  std::set<CodecId> ids;
  for (const Entry<CompressorRow> row : CompressorRow::all()) {
    INFO(row->name);
    CHECK_FALSE(row->about.empty());
    // What a compressor costs depends on network, data and epochs: docs/choosing.md, not `list`.
    for (const char* const figure : {"accura", "points", "%"})
      CHECK(row->about.find(figure) == std::string::npos);
    CHECK(ids.insert(row->id).second);
    CHECK(codec_name(row->id) == row->name);
    const auto compressor = test::made_by_default(*row);
    CHECK(compressor->id() == row->id);
    CHECK((compressor->level_rounding() != nullptr) ==
          (row->reads.has(Option::coding) && !row->codes_floats));
  }
  CHECK(codec_name(static_cast<CodecId>(0xFFFF)) == "unknown");
}

TEST_CASE("options that a compressor does not read make no difference", "[catalogue]") {
  const auto payload = [](const CompressorRow& row, const CompressorOptions& options) {
    const auto compressor = make_compressor(row, options);
    std::vector<float> values(3000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 2654435761u) % 1000) / 500.0f - 1;
    Workspace workspace;
    std::vector<std::byte> bytes(compressor->max_payload_bytes(values.size()));
    bytes.resize(compressor->encode(values, {}, workspace, bytes));
    return bytes;
  };
  for (const Entry<CompressorRow> row : CompressorRow::all()) {
    INFO(row->name);
    CompressorOptions own;
    if (row->choose_defaults != nullptr) row->choose_defaults(own);
    const auto usual = payload(*row, own);
    const auto changes = [&](auto change) {
      CompressorOptions options = own;
      change(options);
      return payload(*row, options) != usual;
    };
    CHECK(row->reads.has(Option::bits) == changes([](auto& o) { o.bits = 3; }));
    CHECK(row->reads.has(Option::bucket_size) == changes([](auto& o) { o.bucket_size = 48; }));
    own.value_bits = 16;
    CHECK(row->reads.has(Option::value_bits) == why_not(*row, own).empty());
    own.value_bits = 32;
    CHECK(row->reads.has(Option::clip) == changes([](auto& o) { o.clip = 1; }));
  }
}

TEST_CASE("some options that a compressor does not use are refused", "[catalogue]") {
  CHECK(why_not(kTopK, {}).empty());
  CHECK_THAT(why_not(kTopK, {.coding = Coding::elias}),
             Catch::Matchers::ContainsSubstring("compressor.coding"));
  CHECK_THAT(why_not(kTopK, {.unbiased = true}), Catch::Matchers::ContainsSubstring("randomk"));
  CHECK_THAT(why_not(kQsgd, {.levels = LevelFamily::mulaw}),
             Catch::Matchers::ContainsSubstring("elastiquant or e-elastiquant"));
  CHECK_THROWS_AS(make_compressor(kTopK, {.unbiased = true}), Error);
  CHECK_THAT(why_not(kQsgd, {.value_bits = 4}),
             Catch::Matchers::ContainsSubstring("compressor.value_bits 4") &&
                 Catch::Matchers::ContainsSubstring("topk") &&
                 Catch::Matchers::ContainsSubstring("\"qsgd\""));
}

TEST_CASE("a value that is sent has 1 to 8, 16 or 32 bits, and is scaled with 16 or 32",
          "[catalogue]") {
  for (const CompressorRow* row : {&kTopK, &kDgc, &kThreshold, &kRandomK}) {
    for (int bits = -1; bits <= 64; ++bits) {
      const bool good = (bits >= 1 && bits <= 8) || bits == 16 || bits == 32;
      CHECK(why_not(*row, {.value_bits = bits}).empty() == good);
      if (!good)
        CHECK_THAT(why_not(*row, {.value_bits = bits}),
                   Catch::Matchers::ContainsSubstring("compressor.value_bits 1 to 8, 16 or 32"));
    }
  }
  for (const int bits : {1, 4, 8})
    CHECK_THAT(why_not(kRandomK, {.value_bits = bits, .unbiased = true}),
               Catch::Matchers::ContainsSubstring("compressor.value_bits 16 or 32 with "
                                                  "compressor.unbiased"));
  for (const int bits : {16, 32})
    CHECK(why_not(kRandomK, {.value_bits = bits, .unbiased = true}).empty());
}

TEST_CASE("a row may be added at run time, with a new name and number", "[catalogue]") {
  static const CompressorRow added = {.name = "added",
                                      .about = "none under another name",
                                      .id = static_cast<CodecId>(0x8001),
                                      .make = kNone.make};
  CompressorRow same_name = added;
  same_name.name = "none";
  CHECK_THROWS_AS(add_compressor(same_name), Error);
  CompressorRow same_number = added;
  same_number.id = CodecId::topk;
  CHECK_THROWS_AS(add_compressor(same_number), Error);
  add_compressor(added);
  CHECK(CompressorRow::all().find("added") == &added);
  CHECK(codec_name(added.id) == "added");
  CHECK(make_compressor("added")->properties().lossless);
}
