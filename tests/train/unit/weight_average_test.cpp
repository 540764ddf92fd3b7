// SPDX-License-Identifier: Apache-2.0
#include "train/weight_average.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/saved_state.hpp"
#include "support/toy_replica.hpp"

using namespace eqt;
using namespace eqt::sync;
using namespace eqt::train;

namespace {

void add(model::Replica& replica, float value) {
  for (float& p : replica.parameters()) p += value;
  for (float& b : replica.buffers()) b += value;
}

}  // namespace

TEST_CASE("the average follows its formula, with a small decay in the first steps", "[ema]") {
  test::ToyReplica replica(3, 2, 1);
  WeightAverage average(0.9);
  average.start(replica);
  std::vector<double> expected(replica.parameters().begin(), replica.parameters().end());
  double expected_buffer = static_cast<double>(replica.buffers()[0]);
  for (StepId step = 0; step < 200; ++step) {
    add(replica, 0.01f * static_cast<float>(step % 7));
    average.update(replica, step);
    // 90 / 99 > 0.9, so from step 80 on the decay is the asked one.
    const auto t = static_cast<double>(step);
    const double decay = step < 80 ? (1 + t) / (10 + t) : 0.9;
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] =
          decay * expected[i] + (1 - decay) * static_cast<double>(replica.parameters()[i]);
    expected_buffer =
        decay * expected_buffer + (1 - decay) * static_cast<double>(replica.buffers()[0]);
  }
  const std::vector<float> live(replica.parameters().begin(), replica.parameters().end());
  average.exchange_with(replica);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(replica.parameters()[i] == Approx(expected[i]).epsilon(1e-5));
  CHECK(replica.buffers()[0] == Approx(expected_buffer).epsilon(1e-5));
  average.exchange_with(replica);
  CHECK(std::ranges::equal(replica.parameters(), live));
}

TEST_CASE("parameters that stay are their own average", "[ema]") {
  test::ToyReplica replica(3, 2, 1);
  WeightAverage average(0.999);
  average.start(replica);
  const std::vector<float> live(replica.parameters().begin(), replica.parameters().end());
  for (StepId step = 0; step < 10; ++step) average.update(replica, step);
  average.exchange_with(replica);
  CHECK(std::ranges::equal(replica.parameters(), live));
}
