// SPDX-License-Identifier: Apache-2.0
// Networks with float32 operands by our own kernels, compared with those that LibTorch runs.

#include <algorithm>
#include <memory>

#include "model/own/own_replica.hpp"
#include "model/unit/int8_support.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

// Near zero, a rounding opens or closes a ReLU, and behind batch normalization the gradients of the
// whole batch change: rounding the parameters to other floats changes LibTorch's by up to 1e-5 of
// their squared norm. EvoNorms have no such edge.
TEST_CASE("our own float32 step has LibTorch's loss, gradient and statistics but for rounding") {
  using namespace models;
  struct Case {
    ModelOptions options;
    double bound;
  };
  const auto [options, bound] = GENERATE(values<Case>(
      {{options_of(resnet20), 1e-3},
       {options_of(resnet20, Shortcut::padding), 1e-3},
       {options_of(vgg11), 1e-3},
       {options_of(alexnet), 1e-8},
       {with_norm(normalizations::groupnorm, options_of(resnet20)), 1e-6},
       {with_norm(normalizations::groupnorm, options_of(vgg11)), 1e-6},
       {with_norm(normalizations::evonorm_s0, options_of(resnet20)), 1e-10},
       {with_norm(normalizations::evonorm_s0, options_of(vgg11)), 1e-10},
       {with_norm(normalizations::range_batchnorm, options_of(resnet20)), 1e-3},
       {with_norm(normalizations::range_evonorm, options_of(resnet20)), 1e-6},
       {with_norm(normalizations::range_evonorm, options_of(vgg11)), 1e-6},
       {with_norm(normalizations::evonorm_s0,
                  {.model = resnet50, .inputs = test::pictures({3, 64, 64}), .outputs = 7}),
        1e-9},
       {with_norm(normalizations::evonorm_s0,
                  {.model = resnet18, .inputs = test::pictures({3, 80, 72}), .outputs = 7}),
        1e-9},
       {{.model = resnet50, .inputs = test::pictures({3, 64, 64}), .outputs = 7}, 1e-3},
       {{.model = resnet18, .inputs = test::pictures({1, 28, 28}), .outputs = 7}, 1e-3}}));
  CAPTURE(options.model->name, options.normalization->name, name_of(options.shortcut));
  const auto exact = make_replica(options), own = make_float32_replica(options);
  std::ranges::copy(exact->parameters(), own->parameters().begin());
  const data::ImageShape shape = images_of(options);
  for (int step = 0; step < 2; ++step) {
    const auto seed = static_cast<std::uint64_t>(step + 1);
    const auto batch = options.outputs == 7 ? random_batch(4, shape, 7, seed) : stripes(16, seed);
    const double loss = exact->forward_backward(batch, {});
    CHECK(own->forward_backward(batch, {}) == Approx(loss).epsilon(1e-4));
    const double error = relative_error(own->gradient(), exact->gradient());
    CAPTURE(step, error);
    CHECK(error < bound);
    if (!exact->buffers().empty()) CHECK(relative_error(own->buffers(), exact->buffers()) < 1e-9);
    const double trained = exact->evaluate(batch).loss();
    CHECK(own->evaluate(batch).loss() == Approx(trained).epsilon(1e-3));
    descend(*exact, 0.02f);
    std::ranges::copy(exact->parameters(), own->parameters().begin());
    std::ranges::copy(exact->buffers(), own->buffers().begin());
  }
  CHECK_FALSE(own->int8_use(32));
  CHECK(own->weight_rounding() == nullptr);
}

}  // namespace
}  // namespace eqt::model
