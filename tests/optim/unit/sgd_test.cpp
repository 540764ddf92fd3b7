// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"
#include "optim/optimizer.hpp"
#include "support/catch.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::optim;

namespace {

TensorSlice slice(std::size_t offset, std::size_t count) { return {"s", {}, offset, count}; }

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = stream.uniform(static_cast<std::uint32_t>(i)) - 0.5f;
  }
  return values;
}

/// One value, by the definition, in double.
struct ByDefinition {
  double p, m = 0;
  void step(double g, double rate, double mu, double wd, bool nesterov, bool corrected) {
    const double d = corrected ? wd * p : g + wd * p;
    m = mu * m + d;
    const double ahead = nesterov ? d + mu * m : m;
    p -= rate * (corrected ? g + ahead : ahead);
  }
};

}  // namespace

TEST_CASE("two steps of SGD by hand", "[sgd]") {
  std::vector<float> p = {1, -2};
  const std::vector<float> g = {0.5f, 1};
  // wd 0.1: d = (0.6, 0.8); m = d; p = (0.4, -2.8)
  const auto sgd = make_sgd(2, {0.5f, false, 0.1f, {}});
  sgd->step(p, g, 1);
  REQUIRE(p[0] == Approx(0.4));
  REQUIRE(p[1] == Approx(-2.8));
  // d = (0.54, 0.72); m = (0.84, 1.12); p -= 0.5 m
  sgd->step(p, g, 0.5f);
  REQUIRE(p[0] == Approx(-0.02));
  REQUIRE(p[1] == Approx(-3.36));
  REQUIRE(test::state_of(*sgd, Across::same)[0] == Approx(0.84));
}

TEST_CASE("Nesterov's step looks ahead", "[sgd]") {
  std::vector<float> p = {1};
  const auto sgd = make_sgd(1, {0.5f, true, 0, {}});
  sgd->step(p, std::vector<float>{1}, 0.1f);  // m = 1, p -= 0.1 (1 + 0.5)
  REQUIRE(p[0] == Approx(0.85));
  sgd->step(p, std::vector<float>{2}, 0.1f);  // m = 2.5, p -= 0.1 (2 + 1.25)
  REQUIRE(p[0] == Approx(0.525));
}

TEST_CASE("where the gradient includes momentum, only weight decay is accumulated", "[sgd]") {
  const bool nesterov = GENERATE(false, true);
  const std::size_t count = 103;
  // Out of order, touching, empty, and one at the very end.
  const SgdOptions options{0.9f,
                           nesterov,
                           0.01f,
                           {slice(50, 7), slice(10, 20), slice(30, 5), slice(40, 0), slice(99, 4)}};
  const auto corrected = [](std::size_t i) {
    return (i >= 10 && i < 35) || (i >= 50 && i < 57) || i >= 99;
  };
  auto p = noise(count, 1);
  std::vector<ByDefinition> expected;
  for (const float value : p) expected.push_back({value});
  const auto sgd = make_sgd(count, options);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto g = noise(count, 2 + step);
    sgd->step(p, g, 0.1f);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i].step(g[i], 0.1f, 0.9f, 0.01f, nesterov, corrected(i));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(p[i] == Approx(expected[i].p).epsilon(0).margin(2e-6));
    REQUIRE(test::state_of(*sgd, Across::same)[i] == Approx(expected[i].m).epsilon(0).margin(2e-6));
  }
}

TEST_CASE("without weight decay a corrected slice is plain gradient descent", "[sgd]") {
  const auto g = noise(64, 9);
  auto corrected = noise(64, 1), plain = corrected;
  const auto a = make_sgd(64, {0.9f, true, 0, {slice(0, 64)}});
  const auto b = make_sgd(64, {0, false, 0, {}});
  for (int step = 0; step < 5; ++step) {
    a->step(corrected, g, 0.1f);
    b->step(plain, g, 0.1f);
  }
  REQUIRE(corrected == plain);
}

TEST_CASE("saved state continues exactly", "[sgd]") {
  const SgdOptions options{0.9f, true, 1e-4f, {slice(3, 5)}};
  auto p = noise(32, 1);
  const auto first = make_sgd(32, options);
  for (std::uint64_t step = 0; step < 3; ++step) first->step(p, noise(32, 5 + step), 0.1f);
  auto q = p;
  const auto second = make_sgd(32, options);
  REQUIRE(test::state_of(*first, Across::same).size() ==
          test::state_of(*second, Across::same).size());
  std::copy(test::state_of(*first, Across::same).begin(),
            test::state_of(*first, Across::same).end(),
            test::state_of(*second, Across::same).begin());
  first->step(p, noise(32, 8), 0.1f);
  second->step(q, noise(32, 8), 0.1f);
  REQUIRE(p == q);
}

TEST_CASE("SGD without momentum keeps no state", "[sgd]") {
  REQUIRE(test::state_of(*make_sgd(10, {0, false, 0.1f, {}}), Across::same).empty());
  REQUIRE(test::state_of(*make_sgd(10, {0.9f, false, 0.1f, {}}), Across::same).size() == 10);
}

TEST_CASE("SGD refuses invalid options", "[sgd]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const SgdOptions& bad :
       {SgdOptions{-0.1f, false, 0, {}}, SgdOptions{1, false, 0, {}}, SgdOptions{nan, false, 0, {}},
        SgdOptions{0.9f, false, -1, {}}, SgdOptions{0.9f, false, nan, {}},
        SgdOptions{0.9f, false, INFINITY, {}}, SgdOptions{0, true, 0, {}}}) {
    try {
      make_sgd(4, bad);
      FAIL("accepted");
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::usage);
    }
  }
  REQUIRE_THROWS_AS(make_sgd(4, {0.9f, false, 0, {slice(2, 3)}}), Error);               // beyond
  REQUIRE_THROWS_AS(make_sgd(4, {0.9f, false, 0, {slice(1, SIZE_MAX)}}), Error);        // wraps
  REQUIRE_THROWS_AS(make_sgd(4, {0.9f, false, 0, {slice(0, 2), slice(1, 2)}}), Error);  // overlap
  std::vector<float> p(4), g(3);
  REQUIRE_THROWS_AS(make_sgd(4, {})->step(p, g, 0.1f), Error);
}
