// SPDX-License-Identifier: Apache-2.0
// Laws of damped codecs: every encoding leaves less than there was, so that a residual stays small.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/parallel.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

constexpr std::size_t kDampedRows = 48, kDampedCount = kDampedRows * 50;

/// A compressor as error feedback takes it, and as its paper has it.
struct DampedPair {
  std::string name;
  std::unique_ptr<Compressor> damped, plain;
};

DampedPair pair_of(const std::string& name, CompressorOptions options) {
  auto plain = make_compressor(name, options);
  options.damped = true;
  return {.name = name, .damped = make_compressor(name, options), .plain = std::move(plain)};
}

/// Level codecs of a variance of 1 or more by norm, coding and levels; the other codecs of which no
/// bound below 1 is known.
std::vector<DampedPair> damped_pairs() {
  std::vector<DampedPair> pairs;
  pairs.push_back(pair_of("qsgd", {.bucket_size = 512}));
  pairs.push_back(pair_of("qsgd", {.bits = 3, .bucket_size = 2400, .coding = Coding::elias}));
  pairs.push_back(pair_of("qsgd-v", {.bucket_size = 512}));
  pairs.push_back(pair_of("qsgd-v", {.bits = 2, .bucket_size = 100}));
  pairs.push_back(pair_of("nuqsgd", {.bits = 2, .bucket_size = 512}));
  pairs.push_back(pair_of("elastiquant", {.bits = 3, .bucket_size = 1000}));
  pairs.push_back(pair_of("e-elastiquant", {.bits = 2, .coding = Coding::automatic}));
  pairs.push_back(pair_of("alq", {.bits = 3}));
  pairs.push_back(pair_of("terngrad", {.clip = 0}));
  pairs.push_back(pair_of("terngrad", {.clip = 1}));
  pairs.push_back(pair_of("atomo", {.atoms = Atoms::spectral, .rank = 2}));
  pairs.push_back(pair_of("atomo", {.atoms = Atoms::entrywise, .density = 0.1}));
  return pairs;
}

EncodeContext damped_context(StepId step) {
  EncodeContext context;
  context.key = {.run_seed = 3, .step = step, .rank = 1, .slice = 2};
  context.rows = kDampedRows;
  return context;
}

std::vector<float> sent_of(const Compressor& codec, std::span<const float> values, StepId step) {
  Workspace workspace;
  std::vector<std::byte> payload(codec.max_payload_bytes(values.size()));
  payload.resize(codec.encode(values, damped_context(step), workspace, payload));
  std::vector<float> sent(values.size());
  codec.decode_add(payload, 1, workspace, sent);
  return sent;
}

double square_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

/// |values - factor * sent|^2
double error_of(std::span<const float> values, std::span<const float> sent, double factor = 1) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double left = static_cast<double>(values[i]) - factor * static_cast<double>(sent[i]);
    sum += left * left;
  }
  return sum;
}

/// A Gaussian vector, one of a few large values, and one whose values have a common part.
std::vector<std::vector<float>> damped_vectors() {
  std::vector<std::vector<float>> vectors(3, test::gaussian(kDampedCount, {.run_seed = 8}));
  for (std::size_t i = 0; i < kDampedCount; ++i) {
    vectors[1][i] *= i % 97 == 0 ? 50.0f : 0.01f;
    vectors[2][i] = 3.0f + 0.1f * vectors[2][i];
  }
  return vectors;
}

}  // namespace

TEST_CASE("no factor brings what was drawn nearer to the values than damping does", "[damped]") {
  for (const DampedPair& pair : damped_pairs())
    for (const auto& values : damped_vectors())
      for (StepId step = 0; step < 5; ++step) {
        INFO(pair.name << ", step " << step);
        const double error = error_of(values, sent_of(*pair.damped, values, step));
        const auto drawn = sent_of(*pair.plain, values, step);
        // float32 rounds scales, and the projection on atoms.
        const double slack = 1e-6 * square_of(values);
        for (const double factor : {0.0, 0.1, 0.25, 0.5, 0.75, 1.0})
          CHECK(error <= error_of(values, drawn, factor) + slack);
      }
}

TEST_CASE("the error of a damped codec is below its bound, which is below 1", "[damped]") {
  constexpr StepId kDraws = 200;
  for (const DampedPair& pair : damped_pairs()) {
    const auto bound = pair.damped->variance_bound(kDampedCount);
    REQUIRE(bound.has_value());
    REQUIRE(*bound < 1);
    CHECK_FALSE(pair.damped->properties().unbiased);
    if (const auto plain = pair.plain->variance_bound(kDampedCount))
      CHECK(*bound == Approx(*plain / (1 + *plain)));
    for (const auto& values : damped_vectors()) {
      double sum = 0;
      for (StepId step = 0; step < kDraws; ++step)
        sum += error_of(values, sent_of(*pair.damped, values, step));
      INFO(pair.name << ", bound " << *bound);
      // The deviation of a mean of so many draws is below a hundredth of the square.
      CHECK(sum / static_cast<double>(kDraws) <= (*bound + 0.02) * square_of(values));
    }
  }
}

TEST_CASE("a residual of a damped codec stays bounded, and nothing is lost", "[damped]") {
  constexpr StepId kSteps = 300;
  for (const DampedPair& pair : damped_pairs()) {
    INFO(pair.name);
    // E|e'|^2 <= q |g + e|^2 gives |e| <= sqrt(q) / (1 - sqrt(q)) |g| for a constant g.
    const double rest = std::sqrt(*pair.damped->variance_bound(kDampedCount));
    const auto gradient = test::gaussian(kDampedCount, {.run_seed = 11});
    std::vector<float> residual(kDampedCount);
    std::vector<double> total(kDampedCount);
    Workspace workspace;
    std::vector<std::byte> payload(pair.damped->max_payload_bytes(kDampedCount));
    for (StepId step = 0; step < kSteps; ++step) {
      const std::size_t bytes = pair.damped->encode_with_feedback(gradient, damped_context(step),
                                                                  workspace, residual, payload);
      std::vector<float> sent(kDampedCount);
      pair.damped->decode_add(std::span(payload).first(bytes), 1, workspace, sent);
      for (std::size_t i = 0; i < kDampedCount; ++i) total[i] += static_cast<double>(sent[i]);
    }
    CHECK(std::sqrt(square_of(residual) / square_of(gradient)) <= rest / (1 - rest));
    double worst = 0;
    for (std::size_t i = 0; i < kDampedCount; ++i)
      worst =
          std::max(worst, std::abs(total[i] + static_cast<double>(residual[i]) -
                                   static_cast<double>(kSteps) * static_cast<double>(gradient[i])));
    // Each step rounds a residual once when the gradient is added and once when it is sent.
    const auto largest = std::ranges::max(residual, {}, [](float v) { return std::abs(v); });
    CHECK(worst <= static_cast<double>(kSteps) * 2 *
                       (4 * std::abs(static_cast<double>(largest)) + 32) * 0x1p-23);
  }
}

TEST_CASE("feedback in one call is addition, encoding and subtraction, also damped", "[damped]") {
  for (const DampedPair& pair : damped_pairs()) {
    INFO(pair.name);
    const auto gradient = test::gaussian(kDampedCount, {.run_seed = 12});
    auto together = test::gaussian(kDampedCount, {.run_seed = 13}), apart = together;
    Workspace workspace;
    std::vector<std::byte> payload(pair.damped->max_payload_bytes(kDampedCount)), other = payload;
    const std::size_t bytes = pair.damped->encode_with_feedback(gradient, damped_context(4),
                                                                workspace, together, payload);
    for (std::size_t i = 0; i < kDampedCount; ++i) apart[i] += gradient[i];
    REQUIRE(pair.damped->encode(apart, damped_context(4), workspace, other) == bytes);
    pair.damped->decode_add(std::span(other).first(bytes), -1, workspace, apart);
    CHECK(std::memcmp(payload.data(), other.data(), bytes) == 0);
    CHECK(together == apart);
  }
}

TEST_CASE("a damped bucket differs from a plain one in its norm alone", "[damped]") {
  // The values 1, -1/4 and 1/8 under the maximum norm with levels 0 and 1: with the draws of this
  // key 1 is sent and others perhaps. m of them: the norm becomes their mean magnitude.
  const std::vector<float> values = {1.0f, -0.25f, 0.125f};
  const DampedPair pair = pair_of("qsgd-v", {.bits = 2, .bucket_size = 3});
  std::size_t alone = 0, several = 0;
  for (StepId step = 0; step < 64; ++step) {
    const auto drawn = sent_of(*pair.plain, values, step),
               sent = sent_of(*pair.damped, values, step);
    float sum = 0, count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (drawn[i] == 0) continue;
      sum += std::abs(values[i]);
      count += 1;
    }
    ++(count == 1 ? alone : several);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(sent[i] == drawn[i] * static_cast<float>(static_cast<double>(sum) / count));
  }
  CHECK(alone > 0);
  CHECK(several > 0);
}

TEST_CASE("damped buckets of zeros, tiny and huge values keep their form", "[damped]") {
  for (const auto coding : {Coding::fixed, Coding::automatic})
    for (const Norm norm : {Norm::l2, Norm::max}) {
      const DampedPair pair =
          pair_of("elastiquant", {.bits = 2, .bucket_size = 64, .norm = norm, .coding = coding});
      for (const float scale : {0.0f, 1e-45f, 1e-39f, 1e-30f, 1.0f, 1e30f, 3e38f}) {
        INFO(scale);
        std::vector<float> values = test::gaussian(200, {.run_seed = 5});
        for (float& value : values) value = std::clamp(value, -1.0f, 1.0f) * scale;
        for (StepId step = 0; step < 8; ++step) {
          const auto sent = sent_of(*pair.damped, values, step);
          for (std::size_t i = 0; i < values.size(); ++i) {
            REQUIRE(std::isfinite(sent[i]));
            CHECK((sent[i] == 0 || std::signbit(sent[i]) == std::signbit(values[i])));
          }
          // The smallest number is as small as a norm becomes.
          const double unit = static_cast<double>(values.size()) * 0x1p-149 * 0x1p-149;
          CHECK(error_of(values, sent) <= (1 + 1e-6) * square_of(values) + unit);
        }
      }
    }
}

TEST_CASE("several threads write the damped payload of one", "[damped]") {
  for (const std::string name : {"qsgd", "qsgd-v", "e-elastiquant"}) {
    INFO(name);
    const CompressorOptions options{
        .bits = 2,
        .bucket_size = 128,
        .coding = name == "e-elastiquant" ? Coding::automatic : Coding::fixed,
        .damped = true};
    const auto one = make_compressor(name, options);
    const auto several = make_parallel(make_compressor(name, options), 3, 1);
    const auto values = test::gaussian(kDampedCount, {.run_seed = 6});
    Workspace workspace;
    std::vector<std::byte> a(one->max_payload_bytes(values.size())),
        b(several->max_payload_bytes(values.size()));
    a.resize(one->encode(values, damped_context(1), workspace, a));
    b.resize(several->encode(values, damped_context(1), workspace, b));
    CHECK(a == b);
  }
}

TEST_CASE("atomo's damped atoms are what was kept of the values", "[damped]") {
  const auto values = test::gaussian(kDampedCount, {.run_seed = 14});
  const DampedPair spectral = pair_of("atomo", {.atoms = Atoms::spectral, .rank = 3});
  const DampedPair entries = pair_of("atomo", {.atoms = Atoms::entrywise, .density = 0.2});
  for (StepId step = 0; step < 10; ++step) {
    // A projection: |x - P x|^2 = |x|^2 - |P x|^2.
    const auto projected = sent_of(*spectral.damped, values, step);
    CHECK(error_of(values, projected) ==
          Approx(square_of(values) - square_of(projected)).epsilon(1e-5));
    const auto sent = sent_of(*entries.damped, values, step);
    const auto drawn = sent_of(*entries.plain, values, step);
    const float threshold = *std::ranges::min_element(drawn, {}, [](float v) {
      return v == 0 ? std::numeric_limits<float>::max() : std::abs(v);
    });
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(drawn[i]) > std::abs(threshold)) CHECK(sent[i] == values[i]);
      if (std::abs(drawn[i]) != std::abs(threshold)) continue;
      sum += std::abs(static_cast<double>(values[i]));
      count += 1;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::abs(drawn[i]) == std::abs(threshold))
        CHECK(std::abs(static_cast<double>(sent[i])) == Approx(sum / count).epsilon(1e-6));
  }
}

TEST_CASE("codes that ranks add as integers have no scale of each rank's own", "[damped]") {
  for (const std::string name : {"qsgd-v", "terngrad"}) {
    CHECK(make_compressor(name)->integer_codec() != nullptr);
    CHECK(make_compressor(name, {.damped = true})->integer_codec() == nullptr);
  }
}
