// SPDX-License-Identifier: Apache-2.0
// Networks with float32 operands by our own kernels, alone.

#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "model/own/own_replica.hpp"
#include "model/unit/int8_support.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/refusal.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {

TEST_CASE("threads do not change a bit of our own float32 step") {
  const auto row =
      GENERATE(&models::resnet20, &models::resnet18, &models::vgg11, &models::efficientnet_lite0,
               &models::mobilenet_v3_small, &models::vit_tiny);
  const ModelOptions options = options_of(*row);
  const auto batch = stripes(8, 1);
  const auto one = make_float32_replica(options, 1);
  const double loss = one->forward_backward(batch, {});
  for (const int threads : {2, 3, 4}) {
    CAPTURE(row->name, threads);
    const auto many = make_float32_replica(options, threads);
    CHECK(many->forward_backward(batch, {}) == loss);
    CHECK(copy_of(many->gradient()) == copy_of(one->gradient()));
    CHECK(copy_of(many->buffers()) == copy_of(one->buffers()));
  }
}

TEST_CASE("our own float32 step has the same bytes on all targets with fused multiply-add") {
  constexpr std::int64_t kFused = HWY_AVX2 | HWY_AVX3 | HWY_NEON;
  using namespace normalizations;
  const ModelOptions options =
      GENERATE(options_of(models::resnet20), with_norm(evonorm_s0, options_of(models::resnet20)),
               options_of(models::vgg11), with_norm(evonorm_s0, options_of(models::vgg11)),
               options_of(models::vit_tiny));
  CAPTURE(options.model->name, options.normalization->name);
  const auto batch = stripes(4, 1);
  std::vector<float> first;
  test::for_each_simd_target([&] {
    if ((test::chosen_target() & kFused) == 0) return;
    const auto replica = make_float32_replica(options, 1);
    replica->forward_backward(batch, {});
    if (first.empty()) first = copy_of(replica->gradient());
    CHECK(copy_of(replica->gradient()) == first);
  });
}

TEST_CASE("our own float32 network learns, and then allocates nothing") {
  const ModelOptions options =
      GENERATE(options_of(models::resnet20),
               with_norm(normalizations::evonorm_s0, options_of(models::resnet20)),
               options_of(models::vit_tiny));
  CAPTURE(options.model->name);
  const auto replica = make_float32_replica(options, 1);
  const auto batch = stripes(16, 1);
  const double first = replica->forward_backward(batch, {});
  descend(*replica, 0.05f);
  double last = 0;
  const std::size_t before = test::allocations();
  for (int step = 0; step < 20; ++step) {
    last = replica->forward_backward(batch, {});
    descend(*replica, 0.05f);
  }
  CHECK(test::allocations() == before);
  CHECK(last < 0.7 * first);
}

TEST_CASE("a value that is not finite ends our own float32 step with the layer and the step") {
  const auto replica = make_float32_replica(options_of(models::resnet20));
  const TensorSlice& slice = replica->layout()[3];
  REQUIRE(slice.name == "layer1.0.conv1.weight");
  std::ranges::fill(replica->parameters().subspan(slice.offset, slice.count),
                    std::numeric_limits<float>::max());
  test::says(test::refusal(Kind::diverged, [&] { replica->forward_backward(stripes(2, 1), {}); }),
             "step 0, layer1.0.conv1: outputs");
}

TEST_CASE("a float32 step keeps less than LibTorch's would") {
  const NetworkMemory memory = float32_memory(options_of(models::resnet20), 32);
  // Four times the 8-bit arena, and a frame and three chunks of floats for each thread.
  CHECK(memory.gradient_bytes > 4 * 8'500'000);
  CHECK(memory.gradient_bytes < 4 * 9'500'000 + 6'000'000);
}

}  // namespace eqt::model
