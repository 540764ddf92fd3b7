// SPDX-License-Identifier: Apache-2.0
// The updates are those of torch::optim.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "optim/optimizer.hpp"
#undef CHECK  // LibTorch's logging has a macro of the same name as Catch2's
#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr std::int64_t kCount = 1003;  // not a multiple of any vector's length

std::vector<float> noise(std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) values[i] = 2 * stream.uniform(i) - 1;
  return values;
}

}  // namespace

TEST_CASE("SGD agrees with torch::optim::SGD", "[sgd][torch]") {
  const double momentum = GENERATE(0.0, 0.9);
  const bool nesterov = GENERATE(false, true);
  const double weight_decay = GENERATE(0.0, 1e-4);
  if (nesterov && momentum == 0) return;  // refused by both
  CAPTURE(momentum, nesterov, weight_decay);

  auto ours = noise(1);
  const auto start = ours;
  auto theirs = torch::from_blob(ours.data(), {kCount}).clone().requires_grad_();
  torch::optim::SGD reference(
      {theirs}, torch::optim::SGDOptions(0.1).momentum(momentum).nesterov(nesterov).weight_decay(
                    weight_decay));
  const auto sgd = optim::make_sgd(
      kCount, {static_cast<float>(momentum), nesterov, static_cast<float>(weight_decay), {}});
  for (std::uint64_t step = 0; step < 50; ++step) {
    const double rate = step < 25 ? 0.1 : 0.01;
    static_cast<torch::optim::SGDOptions&>(reference.param_groups()[0].options()).lr(rate);
    auto gradient = noise(100 + step);
    theirs.mutable_grad() = torch::from_blob(gradient.data(), {kCount}).clone();
    reference.step();
    sgd->step(ours, gradient, static_cast<float>(rate));
  }

  // Values stay below 16, whose half unit in the last place is 2^-21; a step rounds a few times.
  const auto expected = theirs.detach();
  const float* values = expected.data_ptr<float>();
  float furthest = 0, moved = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    REQUIRE(std::abs(values[i]) < 16);
    furthest = std::max(furthest, std::abs(ours[i] - values[i]));
    moved = std::max(moved, std::abs(ours[i] - start[i]));
  }
  REQUIRE(furthest < 50 * 0x1p-21f);
  REQUIRE(moved > 0.5f);
}

TEST_CASE("AdamW agrees with torch::optim::AdamW", "[adamw][torch]") {
  const double weight_decay = GENERATE(0.0, 0.01);
  auto ours = noise(1);
  auto theirs = torch::from_blob(ours.data(), {kCount}).clone().requires_grad_();
  torch::optim::AdamW reference({theirs},
                                torch::optim::AdamWOptions(1e-3).weight_decay(weight_decay));
  const auto adamw = optim::make_adamw(kCount, {.weight_decay = weight_decay});
  for (std::uint64_t step = 0; step < 100; ++step) {
    auto gradient = noise(100 + step);
    theirs.mutable_grad() = torch::from_blob(gradient.data(), {kCount}).clone();
    reference.step();
    adamw->step(ours, gradient, 1e-3f);
  }
  const auto expected = theirs.detach();
  const float* values = expected.data_ptr<float>();
  float furthest = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    furthest = std::max(furthest, std::abs(ours[i] - values[i]));
  INFO("largest difference " << furthest);
  // A step of 1e-3 rounds parameters below 2, whose half unit in the last place is 2^-24.
  CHECK(furthest <= 100 * std::ldexp(1.0f, -24));
}
