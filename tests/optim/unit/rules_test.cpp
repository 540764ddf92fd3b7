// SPDX-License-Identifier: Apache-2.0
// Ranges with a rate and a decay of their own are updated as if each had its own optimizer.

#include <cmath>
#include <vector>

#include "core/random.hpp"
#include "optim/optimizer.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::optim;

namespace {

constexpr std::size_t kCount = 100, kBorder = 37;

std::vector<float> noise(std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = stream.uniform(static_cast<std::uint32_t>(i)) - 0.5f;
  return values;
}

UpdateRules two_rules() {
  return {{.begin = 0, .end = kBorder, .rate_factor = 0.25f, .weight_decay = 0.5},
          {.begin = kBorder, .end = kCount, .rate_factor = 2, .weight_decay = 0}};
}

/// Steps of `both`, with two_rules(), beside those of `first` and `second` on their parts, at rates
/// multiplied by 1/4 and 2, which is exact.
void compare(Optimizer& both, Optimizer& first, Optimizer& second) {
  std::vector<float> p = noise(1), q = p;
  for (std::uint64_t step = 0; step < 7; ++step) {
    const std::vector<float> g = noise(2 + step);
    const float rate = 0.125f / static_cast<float>(step + 1);
    both.step(p, g, rate);
    const std::span<float> parameters(q);
    const std::span<const float> gradient(g);
    first.step(parameters.first(kBorder), gradient.first(kBorder), 0.25f * rate);
    second.step(parameters.subspan(kBorder), gradient.subspan(kBorder), 2 * rate);
  }
  CHECK(p == q);
}

}  // namespace

TEST_CASE("SGD obeys its rules", "[sgd][rules]") {
  const float momentum = GENERATE(0.0f, 0.9f);
  SgdOptions options{.momentum = momentum,
                     .nesterov = momentum > 0,
                     .weight_decay = 0.1f,
                     .momentum_corrected = {},
                     .rules = two_rules()};
  const auto both = make_sgd(kCount, options);
  options.rules.clear();
  options.weight_decay = 0.5f;
  const auto first = make_sgd(kBorder, options);
  options.weight_decay = 0;
  const auto second = make_sgd(kCount - kBorder, options);
  compare(*both, *first, *second);
}

TEST_CASE("rules and corrected slices may overlap in any way", "[sgd][rules]") {
  const std::vector<TensorSlice> corrected = {{"s", {}, 20, 40}};
  SgdOptions options{.momentum = 0.5f,
                     .nesterov = false,
                     .weight_decay = 0.1f,
                     .momentum_corrected = corrected,
                     .rules = two_rules()};
  const auto both = make_sgd(kCount, options);
  const auto first = make_sgd(kBorder, {.momentum = 0.5f,
                                        .nesterov = false,
                                        .weight_decay = 0.5f,
                                        .momentum_corrected = {{"s", {}, 20, kBorder - 20}}});
  const auto second =
      make_sgd(kCount - kBorder, {.momentum = 0.5f,
                                  .nesterov = false,
                                  .weight_decay = 0,
                                  .momentum_corrected = {{"s", {}, 0, 60 - kBorder}}});
  compare(*both, *first, *second);
}

TEST_CASE("AdamW obeys its rules", "[adamw][rules]") {
  const auto both = make_adamw(kCount, {.weight_decay = 0.1, .rules = two_rules()});
  const auto first = make_adamw(kBorder, {.weight_decay = 0.5});
  const auto second = make_adamw(kCount - kBorder, {.weight_decay = 0});
  compare(*both, *first, *second);
}

TEST_CASE("a rate factor of 0 keeps the parameters", "[sgd][rules]") {
  const auto sgd = make_sgd(kCount, {.momentum = 0.9f,
                                     .weight_decay = 0.1f,
                                     .momentum_corrected = {},
                                     .rules = {{0, kCount, 0, 0.1}}});
  std::vector<float> p = noise(1);
  const std::vector<float> before = p;
  sgd->step(p, noise(2), 0.1f);
  CHECK(p == before);
}

TEST_CASE("rules that no update can follow are refused", "[rules]") {
  const auto with = [](UpdateRules rules) {
    return [rules] { (void)make_adamw(kCount, {.rules = rules}); };
  };
  test::says(test::refusal(Kind::usage, with({{0, kCount, -1, 0}})), "at least 0");
  test::says(test::refusal(Kind::usage, with({{0, kCount, 1, INFINITY}})), "at least 0");
  test::says(test::refusal(Kind::bug, with({{0, kCount - 1, 1, 0}})), "rules for");
  test::says(test::refusal(Kind::bug, with({{1, kCount, 1, 0}})), "a rule for");
}
