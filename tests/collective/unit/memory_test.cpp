// SPDX-License-Identifier: Apache-2.0
#include "collective/memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/check_close.hpp"
#include "support/gaussian.hpp"
#include "support/own_message.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::collective;
using test::check_close;
using test::OwnMessage;

namespace {

const std::vector<std::vector<float>> kGradients = {
    {0.3f, -1.0f, 0.2f, 0.5f}, {0.4f, 0.1f, -0.6f, 0.5f}, {-0.2f, 0.3f, -0.5f, 0.1f}};

/// Returns what momentum SGD with m = 1/2 applies, u_n = m u_(n-1) + g_n or with Nesterov m u_n +
/// g_n, and replaces u.
float momentum_direction(float& u, float g, bool nesterov) {
  u = 0.5f * u + g;
  return nesterov ? 0.5f * u + g : u;
}

}  // namespace

TEST_CASE("error feedback with top-1 follows the three-step trace", "[memory]") {
  const auto top1 = codec::make_compressor("topk", {.density = 0.25});
  OwnMessage message(*top1, 4);
  const auto memory = make_error_feedback(4);
  // p and e of three steps, computed by hand from p = g + e, e = p - top1(p).
  const std::vector<std::vector<double>> compensated = {
      {0.3, -1.0, 0.2, 0.5}, {0.7, 0.1, -0.4, 1.0}, {0.5, 0.4, -0.9, 0.1}};
  const std::vector<std::vector<double>> residual = {
      {0.3, 0, 0.2, 0.5}, {0.7, 0.1, -0.4, 0}, {0.5, 0.4, 0, 0.1}};
  // In the trace of the third step the residual of the second was {0.7, 0.1, -0.4, 0}.
  for (std::size_t step = 0; step < 3; ++step) {
    auto g = kGradients[step];
    memory->compensate(message.bucket(), g);
    check_close(g, compensated[step]);
    memory->remember(message.bucket(), message.encode(g, step));
    check_close(test::state_of(*memory), residual[step]);
  }
}

TEST_CASE("DGC with top-1 follows the three-step trace", "[memory]") {
  const auto top1 = codec::make_compressor("dgc", {.density = 0.25});
  struct Trace {
    bool nesterov;
    std::vector<std::vector<double>> sent;  // v before masking: the codec's input
  };
  const std::vector<Trace> traces = {
      {false, {{0.3, -1.0, 0.2, 0.5}, {0.97, 0.1, -0.22, 1.45}, {1.373, 0.49, -1.098, 0.1}}},
      {true,
       {{0.57, -1.9, 0.38, 0.95}, {1.573, 0.19, -0.598, 2.305}, {1.7357, 0.841, -1.8882, 0.19}}}};
  const std::vector<std::vector<std::size_t>> masked = {{1, 3, 0}, {1, 3, 2}};
  for (std::size_t t = 0; t < traces.size(); ++t) {
    OwnMessage message(*top1, 4);
    const auto memory = make_dgc_memory(4, {.momentum = 0.9f, .nesterov = traces[t].nesterov});
    for (std::size_t step = 0; step < 3; ++step) {
      auto g = kGradients[step];
      memory->compensate(message.bucket(), g);
      check_close(g, traces[t].sent[step]);
      memory->remember(message.bucket(), message.encode(g, step));
      const auto state = test::spans_of(*memory);
      CHECK(state[0][masked[t][step]] == 0);  // u: momentum factor masking
      CHECK(state[1][masked[t][step]] == 0);  // v
    }
  }
}

TEST_CASE("error feedback telescopes: sent values plus the residual are the sum of the gradients",
          "[memory]") {
  constexpr std::size_t kCount = 10007;
  for (const auto& compressor :
       {codec::make_compressor("topk", {.density = 0.01}),
        codec::make_compressor("topk", {.density = 0.01, .value_bits = 16}),
        codec::make_compressor("topk", {.density = 0.01, .value_bits = 2}),
        codec::make_compressor("randomk", {.density = 0.1, .value_bits = 4}),
        codec::make_compressor("threshold", {.density = 0.01}),
        codec::make_compressor("randomk", {.density = 0.1}),
        codec::make_compressor("qsgd-v", {.bucket_size = 512})}) {
    OwnMessage message(*compressor, kCount);
    const auto memory = make_error_feedback(kCount);
    std::vector<double> given(kCount), sent(kCount);
    for (StepId step = 0; step < 30; ++step) {
      auto g = test::gaussian(kCount, {.run_seed = 3, .step = step});
      for (std::size_t i = 0; i < kCount; ++i) given[i] += static_cast<double>(g[i]);
      memory->compensate(message.bucket(), g);
      const Contribution contribution = message.encode(g, step);
      const auto decoded = message.decode(contribution, kCount);
      for (std::size_t i = 0; i < kCount; ++i) sent[i] += static_cast<double>(decoded[i]);
      memory->remember(message.bucket(), contribution);
    }
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      worst = std::max(
          worst, std::abs(sent[i] + static_cast<double>(test::state_of(*memory)[i]) - given[i]));
    }
    // Thirty float32 additions of values below 64.
    CHECK(worst < 30 * 64 * 6e-8);
  }
}

TEST_CASE("a residual that decays is the sum of gradients times powers of the factor", "[memory]") {
  // Nothing is above this threshold, so everything stays: e_n = sum of beta^(n-k) g_k, exact in
  // float32 for these integers and powers of two.
  const auto silent = codec::make_compressor("threshold", {.threshold = 1e9});
  const std::vector<std::vector<float>> gradients = {
      {64, -8, 0, 3}, {16, 24, -40, 0}, {-32, 1, 8, 5}, {2, -6, 4, 7}};
  for (const float decay : {1.0f, 0.5f, 0.25f})
    for (const bool fused : {false, true}) {
      INFO("decay " << decay << (fused ? ", added while encoding" : ""));
      OwnMessage message(*silent, 4);
      const auto memory = make_error_feedback(4, {.decay = decay});
      std::vector<float> expected(4);
      for (std::size_t step = 0; step < gradients.size(); ++step) {
        auto values = gradients[step];
        for (std::size_t i = 0; i < 4; ++i) expected[i] = decay * expected[i] + values[i];
        memory->prepare(message.bucket(), {});
        if (fused) {
          Workspace workspace;
          std::vector<std::byte> payload(silent->max_payload_bytes(4));
          (void)silent->encode_with_feedback(values, {}, workspace, memory->residual(), payload);
        } else {
          memory->compensate(message.bucket(), values);
          CHECK(values == expected);
          memory->remember(message.bucket(), message.encode(values, step));
        }
        CHECK(std::ranges::equal(test::state_of(*memory), expected));
      }
    }
}

TEST_CASE("only the bucket that is sent decays, and never to a subnormal number", "[memory]") {
  const float tiny = std::numeric_limits<float>::min();
  const auto memory = make_error_feedback(6, {.decay = 0.5f});
  const auto residual = memory->residual();
  const std::vector<float> before = {8, -8, 3 * tiny, 1.5f * tiny, -tiny, tiny / 4};
  std::ranges::copy(before, residual.begin());
  FusionBucket bucket;
  bucket.begin = 1;
  bucket.end = 6;
  memory->prepare(bucket, {});
  CHECK(
      std::ranges::equal(test::state_of(*memory), std::vector<float>{8, -4, 1.5f * tiny, 0, 0, 0}));
  const auto keeping = make_error_feedback(6);
  std::ranges::copy(before, keeping->residual().begin());
  keeping->prepare(bucket, {});
  CHECK(std::ranges::equal(test::state_of(*keeping), before));
}

TEST_CASE("momentum before compression: what is sent and the residual are the velocities' sum",
          "[memory]") {
  // All values are exact binary fractions.
  const auto silent = codec::make_compressor("threshold", {.threshold = 1e9});
  const std::vector<std::vector<float>> gradients = {
      {64, -8, 0, 3}, {16, 24, -40, 0}, {-32, 1, 8, 5}};
  for (const bool nesterov : {false, true}) {
    OwnMessage message(*silent, 4);
    const auto memory = make_error_feedback(4, {.momentum = 0.5f, .nesterov = nesterov});
    std::vector<float> velocity(4), sum(4);
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      auto values = gradients[step];
      for (std::size_t i = 0; i < 4; ++i) {
        sum[i] += momentum_direction(velocity[i], values[i], nesterov);
      }
      memory->prepare(message.bucket(), values);
      memory->compensate(message.bucket(), values);
      CHECK(values == sum);
      memory->remember(message.bucket(), message.encode(values, step));
      CHECK(std::ranges::equal(test::spans_of(*memory)[0], sum));
      CHECK(std::ranges::equal(test::spans_of(*memory)[1], velocity));
    }
  }
}

TEST_CASE("tensors that are not compressed leave their momentum to the optimizer", "[memory]") {
  const auto memory = make_error_feedback(4, {.momentum = 0.5f});
  FusionBucket bucket;
  bucket.end = 4;
  bucket.segments = {{.slice = 0, .begin = 0, .count = 2, .compressed = false},
                     {.slice = 1, .begin = 2, .count = 2}};
  std::vector<float> values;
  for (int step = 0; step < 2; ++step) {
    values = {1, 2, 3, 4};
    memory->prepare(bucket, values);
  }
  CHECK(values == std::vector<float>{1, 2, 4.5f, 6});
}

TEST_CASE("DGC keeps what rounding leaves out of the values that are sent", "[memory]") {
  constexpr std::size_t kCount = 10007;
  for (const int bits : {1, 2, 8, 16, 32}) {
    INFO(bits << " bits");
    const auto compressor = codec::make_compressor("dgc", {.density = 0.01, .value_bits = bits});
    OwnMessage message(*compressor, kCount);
    const auto memory = make_dgc_memory(kCount, {.momentum = 0});
    std::vector<double> given(kCount), sent(kCount);
    double rounded = 0;
    for (StepId step = 0; step < 30; ++step) {
      auto g = test::gaussian(kCount, {.run_seed = 3, .step = step});
      for (std::size_t i = 0; i < kCount; ++i) given[i] += static_cast<double>(g[i]);
      memory->compensate(message.bucket(), g);
      const Contribution contribution = message.encode(g, step);
      const auto decoded = message.decode(contribution, kCount);
      memory->remember(message.bucket(), contribution);
      const auto state = test::spans_of(*memory);
      for (std::size_t i = 0; i < kCount; ++i) {
        sent[i] += static_cast<double>(decoded[i]);
        if (decoded[i] == 0) continue;
        CHECK(state[0][i] == 0);  // momentum factor masking
        CHECK(state[1][i] == g[i] - decoded[i]);
        rounded += std::abs(static_cast<double>(state[1][i]));
      }
    }
    CHECK((rounded == 0) == (bits == 32));
    // Without momentum all that was given is sent or accumulated; sixty float32 additions of values
    // below 64 round.
    double worst = 0;
    const auto state = test::spans_of(*memory);
    for (std::size_t i = 0; i < kCount; ++i)
      worst = std::max(worst, std::abs(sent[i] + static_cast<double>(state[1][i]) - given[i]));
    CHECK(worst < 60 * 64 * 6e-8);
  }
}

TEST_CASE("DGC sends the momentum's sum without masking, and gradients alone where all is masked",
          "[memory]") {
  // All values are exact binary fractions, and all are sent.
  const auto all = codec::make_compressor("dgc", {.density = 1});
  const std::vector<std::vector<float>> gradients = {
      {64, -8, 16, 3}, {16, 24, -40, 2}, {-32, 1, 8, 5}};
  for (const bool nesterov : {false, true}) {
    for (const bool masking : {false, true}) {
      OwnMessage message(*all, 4);
      const auto memory =
          make_dgc_memory(4, {.momentum = 0.5f, .nesterov = nesterov, .masking = masking});
      std::vector<float> velocity(4), expected(4);
      for (std::size_t step = 0; step < gradients.size(); ++step) {
        auto values = gradients[step];
        for (std::size_t i = 0; i < 4; ++i) {
          if (masking) velocity[i] = 0;
          expected[i] = momentum_direction(velocity[i], values[i], nesterov);
        }
        memory->compensate(message.bucket(), values);
        CHECK(values == expected);
        memory->remember(message.bucket(), message.encode(values, step));
      }
    }
  }
}

TEST_CASE("DGC keeps nothing of tensors that are sent exactly", "[memory]") {
  const auto compressor = codec::make_compressor("dgc", {.density = 0.25, .value_bits = 1});
  OwnMessage message(*compressor, 4, false);
  const auto memory = make_dgc_memory(4, {.momentum = 0.9f});
  for (StepId step = 0; step < 3; ++step) {
    auto g = kGradients[step];
    memory->compensate(message.bucket(), g);
    CHECK(g == kGradients[step]);
    memory->remember(message.bucket(), message.encode(g, step));
    for (const float value : test::state_of(*memory)) CHECK(value == 0);
  }
}

TEST_CASE("DGC clips each tensor to its local share of the threshold", "[memory]") {
  const auto top = codec::make_compressor("dgc", {.density = 1});
  OwnMessage message(*top, 4);
  const auto memory = make_dgc_memory(4, {.momentum = 0, .clip_norm = 1, .ranks = 4});
  std::vector<float> g = {3, 0, 4, 0};  // norm 5, local limit 1 / sqrt(4)
  memory->compensate(message.bucket(), g);
  check_close(g, {0.3, 0, 0.4, 0});
  std::vector<float> small = {0.3f, 0, 0, 0};
  const auto fresh = make_dgc_memory(4, {.momentum = 0, .clip_norm = 1, .ranks = 4});
  fresh->compensate(message.bucket(), small);
  check_close(small, {0.3, 0, 0, 0});
}

TEST_CASE("DGC's warm-up follows the paper's schedule", "[memory]") {
  // 25, 6.25, 1.5625, 0.4, 0.1 %: the paper rounds 0.001^(k/5).
  const std::vector<double> density = {0.25, 0.0625, 0.015625, 0.004, 0.001};
  for (std::size_t epoch = 0; epoch < density.size(); ++epoch) {
    CHECK(dgc_density(0.001, 4, static_cast<double>(epoch)) ==
          Approx(density[epoch]).epsilon(0.02));
  }
  // The authors' code: five warm-up epochs, 0.001^(k/6).
  CHECK(dgc_density(0.001, 5, 0) == Approx(0.316227766017));
  CHECK(dgc_density(0.001, 5, 4) == Approx(0.00316227766017));
  CHECK(dgc_density(0.001, 5, 5) == Approx(0.001));
  CHECK(dgc_density(0.01, 0, 0) == Approx(0.01));
}
