// SPDX-License-Identifier: Apache-2.0
// The memories around the sign codecs: error feedback telescopes, Signum keeps its momentum.

#include <cmath>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/memory.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

constexpr std::size_t kRows = 27;
constexpr std::size_t kCount = kRows * 371;

FusionBucket one_bucket() {
  FusionBucket bucket;
  bucket.end = kCount;
  bucket.segments = {{.slice = 0, .begin = 0, .count = kCount, .compressed = true, .rows = kRows}};
  return bucket;
}

}  // namespace

TEST_CASE("error feedback telescopes: sent values plus the residual are the sum of the gradients",
          "[memory]") {
  std::vector<std::unique_ptr<codec::Compressor>> compressors;
  compressors.push_back(codec::make_compressor("ef-signsgd"));
  compressors.push_back(codec::make_compressor("onebit"));
  const FusionBucket bucket = one_bucket();
  for (const auto& compressor : compressors) {
    INFO(codec::codec_name(compressor->id()));
    CHECK(compressor->properties().needs_feedback);
    const auto memory = make_error_feedback(kCount);
    Workspace workspace;
    std::vector<std::byte> buffer(codec::max_message_bytes(*compressor, bucket.segments));
    std::vector<double> given(kCount);
    std::vector<float> sent(kCount);
    double largest_norm = 0, norm = 0;
    for (StepId step = 0; step < 100; ++step) {
      auto g = test::gaussian(kCount, {.run_seed = 3, .step = step});
      for (std::size_t i = 0; i < kCount; ++i) given[i] += static_cast<double>(g[i]);
      memory->compensate(bucket, g);
      const codec::MessageCodec messages(*compressor, bucket.segments, workspace);
      const codec::MessageId id = {.step = step};
      const std::size_t bytes = messages.encode(g, {.run_seed = 1, .id = id}, buffer);
      const Frame frame{std::span(buffer).first(bytes), bucket.segments};
      messages.decode_add(frame.bytes, id, 1.0f, sent);
      memory->remember(bucket, {.compressor = compressor.get(),
                                .step = step,
                                .index = 0,
                                .frames = std::span(&frame, 1),
                                .exact = {}});
      norm = 0;
      for (const float e : test::state_of(*memory)) norm += static_cast<double>(e) * e;
      largest_norm = std::max(largest_norm, norm);
    }
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double total =
          static_cast<double>(sent[i]) + static_cast<double>(test::state_of(*memory)[i]);
      worst = std::max(worst, std::abs(total - given[i]));
    }
    CHECK(worst < 100 * 128 * 6e-8);  // a hundred float32 additions of values below 128
    // E|e|^2 <= 4 (1 - delta) |g|^2 / delta^2 with delta = 2 / pi, that of Gaussian values
    // (Karimireddy et al. 2019, lemma 3).
    CHECK(largest_norm < 3.6 * static_cast<double>(kCount));
    CHECK(norm > 0.1 * static_cast<double>(kCount));
  }
}

TEST_CASE("Signum's momentum is (1 - beta) sum beta^k g_k, also in segments that are sent raw",
          "[memory]") {
  FusionBucket bucket;
  bucket.end = 6;
  bucket.segments = {{.slice = 0, .begin = 0, .count = 4, .compressed = true},
                     {.slice = 1, .begin = 4, .count = 2, .compressed = false}};
  const auto memory = make_signum_memory(6, 0.9f);
  std::vector<double> expected(6);
  for (StepId step = 0; step < 20; ++step) {
    const auto given = test::gaussian(6, {.run_seed = 8, .step = step});
    auto g = given;
    memory->compensate(bucket, g);
    memory->remember(bucket, {});
    for (std::size_t i = 0; i < 6; ++i) {
      expected[i] = 0.9 * expected[i] + 0.1 * static_cast<double>(given[i]);
      CHECK(static_cast<double>(g[i]) == Approx(expected[i]).margin(1e-6));
      CHECK(test::state_of(*memory)[i] == g[i]);
    }
  }
  CHECK(test::state_of(*memory).size() == 6);
}
