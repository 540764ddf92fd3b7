// SPDX-License-Identifier: Apache-2.0
// Menus of one compressor whose bits or elasticity are open.

#include "codec/mixed/menu.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "codec/levels/level_codec.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::codec;
using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

namespace {

constexpr OpenOptions kBits{.bits = true}, kElasticity{.elasticity = true};

CompressorOptions entropy(Coding coding = Coding::automatic) {
  return {.bucket_size = 512, .coding = coding};
}

Names names_of_menu(const Menu& menu) {
  Names names;
  for (const Grade& grade : menu.grades) names.push_back(grade.name);
  return names;
}

/// Bits per value and relative error of Gaussian values.
struct Outcome {
  double bits = 0, variance = 0;
};

Outcome outcome_of(const Compressor& compressor, std::size_t count) {
  const RandomKey key = {.run_seed = 7};
  const std::vector<float> values = test::gaussian(count, key);
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(count));
  EncodeContext context;
  context.key = {.run_seed = 1, .step = 2};
  const std::size_t bytes = compressor.encode(values, context, workspace, payload);
  std::vector<float> decoded(count);
  compressor.decode_add(std::span(payload).first(bytes), 1, workspace, decoded);
  double square = 0, error = 0;
  for (std::size_t i = 0; i < count; ++i) {
    square += double(values[i]) * values[i];
    error += double(decoded[i] - values[i]) * (decoded[i] - values[i]);
  }
  return {8 * static_cast<double>(bytes) / static_cast<double>(count), error / square};
}

}  // namespace

TEST_CASE("a given elasticity leaves a grade for each number of bits", "[mixed]") {
  CompressorOptions options = entropy();
  options.elasticity = 0.05;
  const Menu menu = open_menu(kEElastiQuant, options, kBits);
  CHECK(names_of_menu(menu) == Names{"e-elastiquant:2@=0.05", "e-elastiquant:3@=0.05",
                                     "e-elastiquant:4@=0.05", "e-elastiquant:5@=0.05",
                                     "e-elastiquant:6@=0.05", "e-elastiquant:7@=0.05",
                                     "e-elastiquant:8@=0.05"});
  CHECK(menu.start == 2);
  // Too much of it leaves the fewest bits: theta of 8 bits is that of 127 levels.
  options.elasticity = 3;
  const Names fewer = names_of_menu(open_menu(kEElastiQuant, options, kBits));
  CHECK(fewer.size() >= 2);
  CHECK(fewer.back() < "e-elastiquant:8");
}

TEST_CASE("an open elasticity has factors around the compressor's own choice", "[mixed]") {
  CompressorOptions options = entropy();
  options.bits = 5;
  const Menu menu = open_menu(kEElastiQuant, options, kElasticity);
  CHECK(menu.grades.size() == std::size(kFactors));
  CHECK(menu.grades[menu.start].name == "e-elastiquant:5@1");
  // The same bytes as without a menu.
  const auto alone = make_compressor(kEElastiQuant, options);
  const Outcome own = outcome_of(*menu.grades[menu.start].compressor, 4096);
  const Outcome expected = outcome_of(*alone, 4096);
  CHECK(own.bits == expected.bits);
  CHECK(own.variance == expected.variance);
}

TEST_CASE("what bytes an elasticity costs depends on the coding", "[mixed]") {
  // Of entropy codes the levels' use decides, of fixed ones the number of levels alone.
  const Menu fixed = open_menu(kElastiQuant, {.bits = 4, .bucket_size = 512}, kElasticity);
  const Menu coded = open_menu(kEElastiQuant, entropy(Coding::rans), kElasticity);
  const double first = outcome_of(*fixed.grades.front().compressor, 8192).bits;
  for (const Grade& grade : fixed.grades) CHECK(outcome_of(*grade.compressor, 8192).bits == first);
  CHECK(outcome_of(*coded.grades.front().compressor, 8192).bits <
        0.9 * outcome_of(*coded.grades.back().compressor, 8192).bits);
}

TEST_CASE("open bits have a menu on the hull: more bits, less variance, in falling slopes",
          "[mixed]") {
  for (const Coding coding : {Coding::automatic, Coding::huffman, Coding::rans, Coding::elias})
    for (const std::size_t bucket : {64u, 512u, 8192u}) {
      CompressorOptions options = entropy(coding);
      options.bucket_size = bucket;
      const Menu menu = open_menu(kEElastiQuant, options, kBits);
      INFO(name_of(coding) << ", buckets of " << bucket);
      CHECK(menu.grades.size() >= 7);
      CHECK(menu.grades.size() <= kMostGrades);
      CHECK_THAT(menu.grades[menu.start].name, ContainsSubstring("e-elastiquant:4@"));
      CHECK(menu.grades.front().name == "e-elastiquant:2@1");
      double variance = 1e9;
      for (const Grade& grade : menu.grades) {
        const Outcome outcome = outcome_of(*grade.compressor, 16 * 8192);
        // The model and a sample of 131072 values differ by a little.
        CHECK(outcome.variance < 1.02 * variance);
        variance = outcome.variance;
      }
    }
  // Of codes of fixed length each number of bits has its best factor only.
  const Menu fixed = open_menu(kElastiQuant, {.bucket_size = 512}, kBits);
  CHECK(fixed.grades.size() == 7);
}

TEST_CASE("messages of an open menu name their grade and are decoded by it", "[mixed]") {
  const auto compressor = make_open(kEElastiQuant, entropy(), kBits);
  MixedGrades* const mixed = compressor->mixed_grades();
  REQUIRE(mixed != nullptr);
  const std::uint32_t slice = 0;
  double before = 1e9;
  for (std::size_t k = 0; k < mixed->grades(); ++k) {
    const auto grade = static_cast<GradeIndex>(k);
    mixed->set_table({&slice, 1}, {&grade, 1});
    const Outcome by_grade = outcome_of(*mixed, 4096);
    const Outcome alone = outcome_of(mixed->grade(grade), 4096);
    CHECK(by_grade.variance == alone.variance);
    CHECK(by_grade.bits == alone.bits + 8.0 / 4096);
    before = std::min(before, by_grade.variance);
  }
  CHECK(before < 0.01);
}

TEST_CASE("what cannot be open is refused", "[mixed]") {
  const auto refusal = [](const CompressorRow& row, const CompressorOptions& options,
                          const OpenOptions& open) {
    return test::refusal(Kind::usage, [&] { (void)make_open(row, options, open); });
  };
  CHECK_THAT(refusal(kQsgd, {}, kBits),
             ContainsSubstring("\"qsgd\"") && ContainsSubstring("compressor.bits"));
  CHECK_THAT(refusal(kAuto, {}, kElasticity), ContainsSubstring("\"measured\""));
  CompressorOptions options = entropy();
  options.bits = 2;
  CHECK_THAT(refusal(kEElastiQuant, options, kElasticity), ContainsSubstring("found 2"));
  options.levels = LevelFamily::adaptive;
  CHECK_THAT(refusal(kEElastiQuant, options, kBits), ContainsSubstring("\"adaptive\""));
  CHECK_THAT(refusal(kEElastiQuant, entropy(Coding::fixed), kBits), ContainsSubstring("\"fixed\""));
}
