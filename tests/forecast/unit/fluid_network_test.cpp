// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates, in cases that can be computed by hand.

#include "forecast/fluid_network.hpp"

#include "support/catch.hpp"

namespace eqt::forecast {
namespace {

constexpr double kAny = 1e300;

std::vector<std::size_t> next_end(FluidNetwork& network, double& seconds) {
  seconds = network.seconds_to_next_end();
  return network.advance(seconds);
}

}  // namespace

TEST_CASE("flows on one link share it, and the rest is faster when one has ended", "[fluid]") {
  FluidNetwork network;
  const ResourceId link = network.add_resource(10);
  network.start(10, {{link, 1}}, kAny, 7);
  network.start(20, {{link, 1}}, kAny, 8);
  double seconds = 0;
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{7});
  CHECK(seconds == Approx(2));
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{8});
  CHECK(seconds == Approx(1));
  CHECK(network.busy_seconds(link) == Approx(3));
}

TEST_CASE("what one link keeps a flow from using, others use", "[fluid]") {
  // Flows 1 and 2 share a link of 2; flow 3 shares a link of 10 with flow 2 alone.
  FluidNetwork network;
  const ResourceId narrow = network.add_resource(2), wide = network.add_resource(10);
  network.start(100, {{narrow, 1}}, kAny, 1);
  network.start(100, {{narrow, 1}, {wide, 1}}, kAny, 2);
  network.start(9, {{wide, 1}}, kAny, 3);
  double seconds = 0;
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{3});
  CHECK(seconds == Approx(1));  // 10 - 1 units a second
}

TEST_CASE("a flow is not faster than its own limit", "[fluid]") {
  FluidNetwork network;
  const ResourceId cores = network.add_resource(3);
  for (const std::size_t owner : {1u, 2u}) network.start(1, {{cores, 1}}, 1, owner);
  double seconds = 0;
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{1, 2});
  CHECK(seconds == Approx(1));
  for (const std::size_t owner : {1u, 2u, 3u, 4u}) network.start(1, {{cores, 1}}, 1, owner);
  CHECK(next_end(network, seconds).size() == 4);
  CHECK(seconds == Approx(4.0 / 3));
}

TEST_CASE("a flow that was paused goes on where it stopped", "[fluid]") {
  FluidNetwork network;
  const ResourceId link = network.add_resource(1);
  const FlowId first = network.start(2, {{link, 1}}, kAny, 1);
  network.advance(1);
  network.pause(first);
  network.start(3, {{link, 1}}, kAny, 2);
  double seconds = 0;
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{2});
  CHECK(seconds == Approx(3));
  network.resume(first);
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{1});
  CHECK(seconds == Approx(1));
}

TEST_CASE("a flow that uses a resource twice as much gets half the rate's worth", "[fluid]") {
  FluidNetwork network;
  const ResourceId link = network.add_resource(6);
  network.start(2, {{link, 2}}, kAny, 1);
  network.start(4, {{link, 1}}, kAny, 2);
  double seconds = 0;
  CHECK(next_end(network, seconds) == std::vector<std::size_t>{1});
  CHECK(seconds == Approx(1));  // both have the rate 6 / (2 + 1)
}

}  // namespace eqt::forecast
