// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/pairwise.hpp"

#include <vector>

#include "codec/catalogue.hpp"
#include "pipeline/plan.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;

namespace {

const Layout kLayout = {{"a", {100, 20}, 0, 2000}, {"b", {50, 10}, 2000, 500}};

std::vector<pipeline::FusionBucket> two_buckets() {
  return pipeline::plan_buckets(kLayout, *codec::make_compressor("none"), {.bucket_bytes = 1});
}

}  // namespace

TEST_CASE("without averages the model is the trainer's, bit for bit", "[pairs]") {
  const auto plan = two_buckets();
  sync::SharedModel model(plan, 2500);
  auto parameters = test::gaussian(2500, {.run_seed = 1});
  model.reset(parameters);
  const auto update = test::gaussian(2500, {.run_seed = 2});
  for (std::size_t i = 0; i < 2500; ++i) parameters[i] -= 0.1f * update[i];
  const auto trained = parameters;
  model.synchronize(parameters);
  CHECK(parameters == trained);
  for (const auto& bucket : plan) {
    std::vector<float> values(bucket.count());
    model.read(bucket, values);
    CHECK(std::equal(values.begin(), values.end(),
                     trained.begin() + static_cast<std::ptrdiff_t>(bucket.begin)));
  }
}

TEST_CASE("an update and an average at the same time are both kept", "[pairs]") {
  const auto plan = two_buckets();
  REQUIRE(plan.size() >= 2);
  sync::SharedModel model(plan, 2500);
  std::vector<float> parameters(2500, 1);
  model.reset(parameters);
  for (float& value : parameters) value += 2;  // not last yet
  const pipeline::FusionBucket& averaged = plan.front();
  model.add(averaged, std::vector<float>(averaged.count(), 8));
  model.synchronize(parameters);
  for (std::size_t i = 0; i < 2500; ++i) {
    const bool inside = i >= averaged.begin && i < averaged.end;
    CHECK(parameters[i] == (inside ? 11 : 3));
  }
  // Nothing is added twice.
  model.synchronize(parameters);
  CHECK(parameters[averaged.begin] == 11);
  model.add(averaged, std::vector<float>(averaged.count(), -1));
  model.synchronize(parameters);
  CHECK(parameters[averaged.begin] == 10);
}
