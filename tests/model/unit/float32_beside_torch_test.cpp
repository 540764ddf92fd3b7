// SPDX-License-Identifier: Apache-2.0
// Networks with float32 operands by our own kernels, compared with those that LibTorch runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/random.hpp"
#include "model/own/own_replica.hpp"
#include "model/unit/int8_support.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

/// The largest change of LibTorch's gradient, relative to its squared norm, when each parameter is
/// moved up or down by 2^-20 of itself, about as far as roundings move a sum of some hundred
/// products. Where two values nearly tie, or one is nearly zero, that moves an extreme, a maximum
/// of pixels or what a ReLU lets through, and with it the gradient, to another place.
double edge_of(Replica& exact, const data::Batch& batch) {
  const std::vector<float> parameters(exact.parameters().begin(), exact.parameters().end());
  const std::vector<float> gradient(exact.gradient().begin(), exact.gradient().end());
  const std::vector<float> buffers(exact.buffers().begin(), exact.buffers().end());
  double edge = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    const RandomStream random({seed, 0, 0, 0});
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool up = (random.bits(static_cast<std::uint32_t>(i)) & 1u) != 0;
      exact.parameters()[i] = parameters[i] * (up ? 1 + 0x1p-20f : 1 - 0x1p-20f);
    }
    exact.forward_backward(batch, {});
    edge = std::max(edge, relative_error(exact.gradient(), gradient));
  }
  std::ranges::copy(parameters, exact.parameters().begin());
  std::ranges::copy(gradient, exact.gradient().begin());
  std::ranges::copy(buffers, exact.buffers().begin());
  return edge;
}

// Near zero, a rounding opens or closes a ReLU, and behind batch normalization the gradients of the
// whole batch change: rounding the parameters to other floats changes LibTorch's by up to 1e-5 of
// their squared norm. EvoNorms have no such edge; those by range have one where extremes tie,
// and maxima of pixels where two of them nearly do.
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
       {options_of(airbench), 1e-4},
       {with_norm(normalizations::groupnorm, options_of(airbench_small)), 1e-4},
       {with_norm(normalizations::evonorm_s0, options_of(airbench_small)), 1e-4},
       {{.model = airbench_small, .inputs = test::pictures({1, 28, 28}), .outputs = 7}, 1e-4},
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
       {options_of(mobilenet_v2), 1e-3},
       {options_of(efficientnet_lite0), 1e-3},
       {options_of(mobilenet_v3_small), 1e-3},
       {{.model = mobilenet_v3_small, .inputs = test::pictures({3, 96, 80}), .outputs = 7}, 1e-3},
       {{.model = mobilenet_v2, .inputs = test::pictures({3, 96, 80}), .outputs = 7}, 1e-3},
       {options_of(vit_tiny), 1e-9},
       {{.model = vit_tiny, .inputs = test::pictures({1, 28, 28}), .outputs = 7}, 1e-9},
       {{.model = vit_small, .inputs = test::pictures({3, 96, 80}), .outputs = 7}, 1e-9},
       {{.model = resnet50, .inputs = test::pictures({3, 64, 64}), .outputs = 7}, 1e-3},
       {{.model = resnet18, .inputs = test::pictures({1, 28, 28}), .outputs = 7}, 1e-3}}));
  CAPTURE(options.model->name, options.normalization->name, name_of(options.shortcut));
  const auto exact = make_replica(options), own = make_float32_replica(options);
  std::ranges::copy(exact->parameters(), own->parameters().begin());
  std::ranges::copy(exact->frozen(), own->frozen().begin());
  const data::ImageShape shape = images_of(options);
  for (int step = 0; step < 2; ++step) {
    const auto seed = static_cast<std::uint64_t>(step + 1);
    const auto batch = options.outputs == 7 ? random_batch(4, shape, 7, seed) : stripes(16, seed);
    const double loss = exact->forward_backward(batch, {});
    CHECK(own->forward_backward(batch, {}) == Approx(loss).epsilon(1e-4));
    const double error = relative_error(own->gradient(), exact->gradient());
    // LibTorch's roundings differ by processor, so that on some it is at such an edge.
    const double edge = !(error < bound) ? edge_of(*exact, batch) : 0;
    CAPTURE(step, error, edge);
    CHECK(error < std::max(bound, 2 * edge));
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
