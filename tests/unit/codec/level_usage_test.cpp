#include "codec/levels/level_usage.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "codec/codecs.hpp"
#include "codec/levels/levels.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

std::vector<std::uint64_t> usage_of(const Compressor& codec, const std::vector<float>& values) {
  LevelUsage usage(codec);
  EncodeContext context;
  context.key = {.run_seed = 1, .step = 2, .rank = 0, .slice = 3};
  usage.add(values, context);
  return {usage.counts().begin(), usage.counts().end()};
}

}  // namespace

TEST_CASE("values that lie on levels are counted there", "[level-usage]") {
  // 3 bits: n = 3, levels 0, 1/3, 2/3, 1 of the maximum; multiples of it are met exactly.
  const auto codec = make_qsgd_v({.bits = 3, .bucket_size = 8, .coding = Coding::fixed});
  const std::vector<float> values = {3,  -1, 0, 2, 2, -3, 1,  1,       // norm 3
                                     -6, 0,  0, 4, 2, 2,  -2, -4,      // norm 6
                                     0,  0,  0, 0, 0, 0,  0,  0,  9};  // norms 0 and 9
  CHECK(usage_of(*codec, values) == std::vector<std::uint64_t>{2, 1, 2, 11, 4, 3, 2});
}

TEST_CASE("every value has a code, whatever the coding and whoever chose the levels",
          "[level-usage]") {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(10007);
  for (float& v : values) v = normal(engine);
  std::vector<std::uint64_t> fixed;
  for (const Coding coding : {Coding::fixed, Coding::elias, Coding::huffman, Coding::rans}) {
    const auto codec = make_nuqsgd({.bits = 4, .bucket_size = 512, .coding = coding});
    const auto counts = usage_of(*codec, values);
    CHECK(counts.size() == 15);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == values.size());
    if (coding == Coding::fixed) fixed = counts;
    CHECK(counts == fixed);
  }
  const auto adaptive = make_alq({.bits = 4, .bucket_size = 512, .coding = Coding::huffman});
  const auto counts = usage_of(*adaptive, values);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == values.size());
}

TEST_CASE("codes that are not zero are as many as expected", "[level-usage]") {
  std::mt19937 engine(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(4096);
  for (float& v : values) v = normal(engine);
  const auto codec = make_qsgd({.bits = 4, .bucket_size = 4096, .coding = Coding::fixed});
  const auto counts = usage_of(*codec, values);
  const double nonzeros = static_cast<double>(values.size() - counts[7]);
  const double expected = expected_nonzeros(uniform_levels(7), values, Norm::l2);
  // A sum of independent draws has a variance of at most its mean; five standard errors.
  CHECK(std::abs(nonzeros - expected) < 5 * std::sqrt(expected));
}

TEST_CASE("codecs without levels have none", "[level-usage]") {
  CHECK(levels_of(*make_none()).empty());
  CHECK(levels_of(*make_terngrad({.clip = 2.5})).empty());
  CHECK(levels_of(*make_qsgd({.bits = 2, .bucket_size = 8, .coding = Coding::fixed})) ==
        std::vector<float>{0, 1});
}
