// SPDX-License-Identifier: Apache-2.0
// The network of few epochs: its parameters, its first layer, its outputs for several views.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/averaged_views.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "model/whitening.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kShape{3, 32, 32};

ModelOptions airbench_options() {
  return {.model = models::airbench, .inputs = test::pictures(kShape)};
}

TEST_CASE("airbench has the published parameters", "[airbench]") {
  // 24 x 12 + 24 of the first layer; 9 in out of each convolution; the head's 256 x 10. A norm's
  // scale and the head's bias are this program's.
  constexpr std::size_t kConvolutions = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256);
  const auto replica = make_replica(airbench_options());
  CHECK(replica->frozen().size() == 24 * 12);
  CHECK(replica->parameters().size() ==
        24 + kConvolutions + 2 * (2 * 64 + 4 * 256) + 256 * 10 + 10);
  CHECK(replica->layout().front().name == "whiten.bias");
  ModelOptions small = airbench_options();
  small.model = models::airbench_small;
  CHECK(make_replica(small)->parameters().size() ==
        24 + 9 * (24 * 32 + 32 * 32 + 32 * 64 + 64 * 64 + 64 * 128 + 128 * 128) +
            4 * (32 + 64 + 128) + 128 * 10 + 10);
}

TEST_CASE("airbench's convolutions pass their input on at first", "[airbench]") {
  const auto replica = make_replica(airbench_options());
  const auto found =
      std::ranges::find(replica->layout(), std::string("block1.conv1.weight"), &TensorSlice::name);
  REQUIRE(found != replica->layout().end());
  const auto weights = replica->parameters().subspan(found->offset, found->count);
  // (out, 3, 3, in) in memory: the middle is the fifth of nine.
  for (std::size_t out = 0; out < 24; ++out)
    for (std::size_t place = 0; place < 9; ++place)
      for (std::size_t in = 0; in < 24; ++in)
        REQUIRE(weights[(out * 9 + place) * 24 + in] == (place == 4 && in == out ? 1.0f : 0.0f));
  CHECK(std::ranges::any_of(weights.subspan(24 * 9 * 24), [](float w) { return w != 0; }));
}

TEST_CASE("airbench learns a batch", "[airbench]") {
  const Precision precision = GENERATE(Precision::fp32, Precision::bf16);
  ModelOptions options = airbench_options();
  options.precision = precision;
  const auto replica = make_replica(options);
  const data::Batch batch = random_batch(16, kShape);
  const std::vector<float> filters =
      whitening_filters(test::images_in(batch), kShape, kWhitenedSide);
  std::ranges::copy(filters, replica->frozen().begin());
  const double first = replica->forward_backward(batch, {});
  double last = first;
  for (int step = 0; step < 10; ++step) {
    const auto p = replica->parameters();
    const auto g = replica->gradient();
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.5f * g[i];
    last = replica->forward_backward(batch, {});
  }
  CHECK(std::isfinite(last));
  CHECK(last < 0.8 * first);
  CHECK(std::ranges::equal(replica->frozen(), filters));  // not trained
}

TEST_CASE("airbench's gradient is the slope of its loss", "[airbench]") {
  // 32 pixels are 31, 15, 7 and 3 after the first layer and the pools, each of which drops a row;
  // 33 are 32, 16, 8 and 4.
  const int side = GENERATE(32, 33);
  const data::ImageShape shape{3, side, side};
  ModelOptions options = airbench_options();
  options.model = models::airbench_small;
  options.inputs = test::pictures(shape);
  const auto replica = make_replica(options);
  const data::Batch batch = random_batch(16, shape);
  const std::vector<float> filters =
      whitening_filters(test::images_in(batch), shape, kWhitenedSide);
  std::ranges::copy(filters, replica->frozen().begin());
  replica->forward_backward(batch, {});
  const std::vector<float> start(replica->parameters().begin(), replica->parameters().end());
  const std::vector<float> gradient(replica->gradient().begin(), replica->gradient().end());
  double square = 0;
  for (const float g : gradient) square += static_cast<double>(g) * static_cast<double>(g);
  REQUIRE(square > 0);
  const auto loss_at = [&](double distance) {
    const auto p = replica->parameters();
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = static_cast<float>(static_cast<double>(start[i]) +
                                distance * static_cast<double>(gradient[i]) / std::sqrt(square));
    return replica->forward_backward(batch, {});
  };
  constexpr double kDistance = 2e-3;
  const double slope = (loss_at(kDistance) - loss_at(-kDistance)) / (2 * kDistance);
  CHECK(slope == Approx(std::sqrt(square)).epsilon(0.01));
}

TEST_CASE("outputs of several views are their weighted mean", "[airbench]") {
  const auto replica = make_replica(airbench_options());
  const data::Batch batch = random_batch(3, kShape);
  data::Array mean, one;
  AveragedViews views(data::TestViews::flip_shift);
  views.predict(*replica, batch, mean);
  std::vector<double> expected(30);
  for (const data::View& view : data::views_of(data::TestViews::flip_shift)) {
    data::Batch seen;
    seen.inputs.resize(1);
    data::write_view(batch.inputs.front(), view, seen.inputs.front());
    replica->predict(seen, one);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += static_cast<double>(view.weight) *
                     static_cast<double>(std::as_const(one).get<float>()[i]);
  }
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::as_const(mean).get<float>()[i] == Approx(expected[i]).margin(1e-6));
  AveragedViews plain(data::TestViews::plain);
  plain.predict(*replica, batch, mean);
  replica->predict(batch, one);
  CHECK(std::ranges::equal(std::as_const(mean).get<float>(), std::as_const(one).get<float>()));
}

}  // namespace
}  // namespace eqt::model
