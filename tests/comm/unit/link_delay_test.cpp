// SPDX-License-Identifier: Apache-2.0
#include "comm/link_delay.hpp"

#include <cmath>
#include <string>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using comm::LinkDelay;
using comm::parse_link_delay;
using comm::seconds_held;

TEST_CASE("a link's delay is read, in any order", "[link]") {
  const LinkDelay all = parse_link_delay("seed=7,rank=2,jitter_ms=20,latency_ms=50");
  CHECK(all == LinkDelay{.latency_seconds = 0.05, .jitter_seconds = 0.02, .seed = 7, .rank = 2});
  CHECK(parse_link_delay("latency_ms=0.5") == LinkDelay{.latency_seconds = 0.0005});
  CHECK(parse_link_delay("jitter_ms=60000").jitter_seconds == 60);
  for (const LinkDelay& delay : {all, parse_link_delay("latency_ms=0.125")})
    CHECK(parse_link_delay(comm::text_of(delay)) == delay);
}

TEST_CASE("a malformed delay is refused", "[link]") {
  for (const std::string wrong : {"",
                                  "50",
                                  "latency_ms",
                                  "latency_ms=",
                                  "latency_ms=-1",
                                  "latency_ms=x",
                                  "latency_ms=nan",
                                  "latency_ms=60001",
                                  "latency_ms=5ms",
                                  "latency_ms=0",
                                  "seed=1",
                                  "latency_ms=5,",
                                  "latency_ms=5,,seed=1",
                                  "latency_ms=5,latency_ms=6",
                                  "latency_ms=5,seed=-1",
                                  "latency_ms=5,seed=1.5",
                                  "latency_ms=5,rank=-1",
                                  "latency_ms=5,rank=99999999999",
                                  "latency_ms=5,bandwidth=3",
                                  "latency_ms=5;seed=1",
                                  "=5"}) {
    CAPTURE(wrong);
    const std::string sentence = test::refusal(Kind::usage, [&] { (void)parse_link_delay(wrong); });
    test::says(sentence, "EQT_LINK");
    test::says(sentence, "\"" + wrong + "\"");
  }
}

TEST_CASE("jitter is uniform and a function of its key", "[link]") {
  const LinkDelay delay = {.latency_seconds = 2, .jitter_seconds = 3, .seed = 4};
  constexpr int kDraws = 20000;
  double sum = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double held = seconds_held(delay, 1, 0, 5, static_cast<std::uint64_t>(i));
    REQUIRE((held >= 2 && held < 5));
    const double u = (held - 2) / 3;
    sum += u, square += u * u;
  }
  // Variances of u and u^2 are 1/12 and 4/45. Five standard errors.
  CHECK(std::abs(sum / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(square / kDraws - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kDraws));

  const double first = seconds_held(delay, 1, 0, 5, 6);
  CHECK(seconds_held(delay, 1, 0, 5, 6) == first);
  CHECK(seconds_held(delay, 2, 0, 5, 6) != first);
  CHECK(seconds_held(delay, 1, 3, 5, 6) != first);
  CHECK(seconds_held(delay, 1, 0, 7, 6) != first);
  CHECK(seconds_held(delay, 1, 0, 5, 8) != first);
  LinkDelay other = delay;
  other.seed = 9;
  CHECK(seconds_held(other, 1, 0, 5, 6) != first);
  other.jitter_seconds = 0;
  CHECK(seconds_held(other, 1, 0, 5, 6) == 2);
}
