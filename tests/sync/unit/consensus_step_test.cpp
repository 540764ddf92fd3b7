// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/consensus_step.hpp"

#include <cmath>
#include <utility>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"

using namespace eqt;
using namespace eqt::sync;

namespace {

Quality quality_of(const codec::Compressor& compressor, std::int64_t rows, std::int64_t columns) {
  const auto plan =
      pipeline::plan_buckets(test::layout_of({{rows, columns}}), compressor, {.skip_below = 1});
  return measure_quality(compressor, plan, 3);
}

double step_of(const codec::Compressor& compressor) {
  return choco_step(quality_of(compressor, 500, 600).contraction, compressor.properties());
}

}  // namespace

TEST_CASE("the largest values of a normal vector have the norm of tables", "[gossip]") {
  // 2 (t phi(t) + Q(t)) beyond the two-sided quantile t.
  CHECK(quality_of(*codec::make_compressor("topk", {.density = 0.01}), 500, 600).contraction ==
        Approx(0.0845).epsilon(0.02));
  CHECK(quality_of(*codec::make_compressor("topk", {.density = 0.1}), 500, 600).contraction ==
        Approx(0.4393).epsilon(0.02));
  // |v|_1^2 / (d |v|_2^2) = 2 / pi for signs with their mean size.
  CHECK(quality_of(*codec::make_compressor("ef-signsgd"), 500, 600).contraction ==
        Approx(2 / 3.14159265).epsilon(0.02));
  // k of n at random, as they are: k / n; scaled by n / k and damped: the same.
  const Quality biased = quality_of(*codec::make_compressor("randomk", {.density = 0.1}), 500, 600);
  CHECK(biased.contraction == Approx(0.1).epsilon(0.05));
  CHECK(biased.damping == 1.0f);
  const Quality scaled =
      quality_of(*codec::make_compressor("randomk", {.density = 0.1, .unbiased = true}), 500, 600);
  CHECK(scaled.contraction == Approx(0.1).epsilon(0.05));
  CHECK(static_cast<double>(scaled.damping) == Approx(0.1).epsilon(0.05));
  // TernGrad sends S sign(v) with probability |v| / S: |q|^2 is S |v|_1, more than |v|^2.
  const Quality ternary = quality_of(*codec::make_compressor("terngrad", {.clip = 0}), 500, 600);
  CHECK(ternary.contraction > 0.1);
  CHECK(ternary.contraction == Approx(static_cast<double>(ternary.damping)).epsilon(0.05));
  const Quality clipped = quality_of(*codec::make_compressor("terngrad", {.clip = 2.5}), 500, 600);
  // S = 2.5: <q, v> / |q|^2 is about |v|^2 / (S |v|_1) = 1 / (2.5 * 0.798), a little less by what
  // is clipped.
  CHECK(clipped.contraction == Approx(0.49).epsilon(0.04));
  CHECK(static_cast<double>(clipped.damping) == Approx(0.49).epsilon(0.04));
  const Quality exact = quality_of(*codec::make_compressor("none"), 500, 600);
  CHECK(exact.contraction == 1);
  CHECK(exact.damping == 1.0f);
}

TEST_CASE("CHOCO's default step is the best of sweeps", "[gossip]") {
  CHECK(step_of(*codec::make_compressor("topk", {.density = 0.01})) == Approx(0.02).epsilon(0.25));
  CHECK(step_of(*codec::make_compressor("topk", {.density = 0.1})) == Approx(0.165).epsilon(0.25));
  CHECK(step_of(*codec::make_compressor("ef-signsgd")) == Approx(0.3).epsilon(0.25));
  CHECK(step_of(*codec::make_compressor("int8")) == 1);
  CHECK(step_of(*codec::make_compressor("qsgd-v", {.bits = 8, .bucket_size = 512})) == 1);
  CHECK(step_of(*codec::make_compressor("fp16")) == 1);
  CHECK(step_of(*codec::make_compressor("none")) == 1);
}

TEST_CASE("the step depends on the kind of error", "[gossip]") {
  // Best of a dozen steps on directed rings of 4, 8 and 16, Gaussian errors of this size.
  const std::pair<double, double> best[] = {{0.1, 0.05},   {0.2, 0.1},   {0.385, 0.2},
                                            {0.556, 0.35}, {0.714, 0.5}, {0.833, 0.65},
                                            {0.909, 0.8}};
  for (const auto& [contraction, step] : best)
    CHECK(choco_step(contraction, {.random = true}) == Approx(step).epsilon(0.1));
  CHECK(choco_step(0.64, {}, false) == Approx(choco_step(0.64) / 4));
  CHECK(choco_step(0.64, {.sparse = true}, false) == choco_step(0.64));
  CHECK(choco_step(0.99, {}, false) == 1);
}

TEST_CASE("steps grow with the contraction, and DeepSqueeze's are a third", "[gossip]") {
  double before = 0;
  for (double contraction = 0.001; contraction < 0.95; contraction *= 1.1) {
    const double step = choco_step(contraction);
    CHECK(step > before);
    CHECK(step < 1);
    CHECK(squeeze_step(contraction) == Approx(step / 3));
    before = step;
  }
  CHECK(squeeze_step(0.99) == Approx(1.0 / 3));
  CHECK(squeeze_step(1) == 1);
}
