// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/levels/levels.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

std::vector<std::uint64_t> usage_of(const Compressor& codec, const std::vector<float>& values) {
  const auto usage = LevelUsage::of(codec);
  EncodeContext context;
  context.key = {.run_seed = 1, .step = 2, .rank = 0, .slice = 3};
  usage->add(values, context);
  return usage->counts();
}

}  // namespace

TEST_CASE("values that lie on levels are counted there", "[level-usage]") {
  // 3 bits: n = 3, levels 0, 1/3, 2/3, 1 of the maximum; multiples of it are met exactly.
  const auto codec =
      make_compressor("qsgd-v", {.bits = 3, .bucket_size = 8, .coding = Coding::fixed});
  const std::vector<float> values = {3,  -1, 0, 2, 2, -3, 1,  1,       // norm 3
                                     -6, 0,  0, 4, 2, 2,  -2, -4,      // norm 6
                                     0,  0,  0, 0, 0, 0,  0,  0,  9};  // norms 0 and 9
  CHECK(usage_of(*codec, values) == std::vector<std::uint64_t>{2, 1, 2, 11, 4, 3, 2});
}

TEST_CASE("every value has a code, for any coding and any levels", "[level-usage]") {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(10007);
  for (float& v : values) v = normal(engine);
  std::vector<std::uint64_t> fixed;
  for (const Coding coding : {Coding::fixed, Coding::elias, Coding::huffman, Coding::rans}) {
    const auto codec = make_compressor("nuqsgd", {.bits = 4, .bucket_size = 512, .coding = coding});
    const auto counts = usage_of(*codec, values);
    CHECK(counts.size() == 15);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == values.size());
    if (coding == Coding::fixed) fixed = counts;
    CHECK(counts == fixed);
  }
  const auto adaptive =
      make_compressor("alq", {.bits = 4, .bucket_size = 512, .coding = Coding::huffman});
  const auto counts = usage_of(*adaptive, values);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == values.size());
}

TEST_CASE("the number of nonzero codes is the expected one", "[level-usage]") {
  std::mt19937 engine(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(4096);
  for (float& v : values) v = normal(engine);
  const auto codec =
      make_compressor("qsgd", {.bits = 4, .bucket_size = 4096, .coding = Coding::fixed});
  const auto counts = usage_of(*codec, values);
  const double nonzeros = static_cast<double>(values.size() - counts[7]);
  const double expected = expected_nonzeros(uniform_levels(7), values, Norm::l2);
  // A sum of independent draws has a variance of at most its mean; five standard errors.
  CHECK(std::abs(nonzeros - expected) < 5 * std::sqrt(expected));
}

TEST_CASE("codes are those that are sent", "[level-usage]") {
  std::mt19937 engine(11);
  std::normal_distribution<float> normal;
  constexpr std::size_t kBucket = 512, kLevels = 7;
  std::vector<float> values(3 * kBucket);
  for (float& v : values) v = normal(engine);
  // Norms that are scaled before they are divided by.
  for (std::size_t i = 0; i < kBucket; ++i) values[i] *= 1e-25f, values[i + kBucket] *= 1e30f;
  const auto codec =
      make_compressor("qsgd", {.bits = 4, .bucket_size = kBucket, .coding = Coding::fixed});
  EncodeContext context;
  context.key = {.run_seed = 1, .step = 2, .rank = 0, .slice = 3};
  Workspace workspace;
  std::vector<std::byte> payload(codec->max_payload_bytes(values.size()));
  payload.resize(codec->encode(values, context, workspace, payload));
  std::vector<float> decoded(values.size());
  codec->decode_add(payload, 1.0f, workspace, decoded);
  std::vector<std::uint64_t> counts(2 * kLevels + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float norm = 0;
    std::memcpy(&norm, payload.data() + i / kBucket * (payload.size() / 3), sizeof(norm));
    const long code = std::lround(kLevels * decoded[i] / norm);
    ++counts[kLevels + static_cast<std::size_t>(code)];
  }
  CHECK(usage_of(*codec, values) == counts);
}

TEST_CASE("codecs without levels have none", "[level-usage]") {
  CHECK(LevelUsage::of(*make_compressor("none")) == nullptr);
  CHECK(LevelUsage::of(*make_compressor("terngrad", {.clip = 2.5})) == nullptr);
}
