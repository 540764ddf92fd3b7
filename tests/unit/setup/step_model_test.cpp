// SPDX-License-Identifier: Apache-2.0
// What a step takes with given grades: by hand, and as it must change with bytes, link and buckets.

#include <vector>

#include "collective/catalogue.hpp"
#include "setup/build_grades.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::setup;

namespace {

constexpr double kRate = 1000;  // bytes per second

/// Two boards, two slices of 100 values, each in a bucket of its own; codecs take no time.
StepModel model_of(double forward, double backward) {
  StepModel model{
      .collective = &collective::kAllgather,
      .volume = {.ranks = 2, .hosts = 2, .values = 200},
      .machine = {.ranks = 2,
                  .hosts = 2,
                  .between_hosts = {.latency_seconds = 0, .bytes_per_second = kRate},
                  .within_host = {}},
      .buckets = {},
      .overlap = true,
      .fixed = StepModel::Fixed{.forward = forward, .backward = backward, .codec_seconds = {0, 0}}};
  for (std::size_t slice = 0; slice < 2; ++slice)
    model.buckets.push_back({.raw_bytes = 0, .shares = {{.slice = slice, .part = 1}}});
  return model;
}

std::vector<collective::SliceLoad> loads(double first, double second) {
  return {{.values = 100, .bytes = first, .grade = 0},
          {.values = 100, .bytes = second, .grade = 1}};
}

}  // namespace

TEST_CASE("buckets are sent one after the other, each when it is complete", "[grades]") {
  const StepModel model = model_of(1, 2);  // buckets are complete after 2 s and 3 s
  const auto seconds = [&](double first, double second) {
    return predict_step(model, loads(first, second), {}).step;
  };
  CHECK(seconds(500, 500) == Approx(3.5));   // the first is hidden
  CHECK(seconds(1500, 500) == Approx(4));    // the second waits for the first
  CHECK(seconds(500, 1500) == Approx(4.5));  // as long as it takes after the backward pass
  CHECK(predict_step(model, loads(500, 500), {}).exchange == Approx(1));
}

TEST_CASE("without overlap the exchange follows the backward pass", "[grades]") {
  StepModel model = model_of(1, 2);
  model.overlap = false;
  CHECK(predict_step(model, loads(500, 500), {}).step == Approx(4));
}

TEST_CASE("a link that is slower than measured lengthens the exchange alone", "[grades]") {
  const StepModel model = model_of(1, 2);
  const auto slow = predict_step(model, loads(500, 500), {.slowdown = 3});
  CHECK(slow.exchange == Approx(3));
  CHECK(slow.step == Approx(5));
}

TEST_CASE("measured times count where none are fixed", "[grades]") {
  StepModel model = model_of(0, 0);
  model.fixed.reset();
  const collective::StepSpeeds speeds{.forward = 1,
                                      .backward = 2,
                                      .encode_seconds = {0, 0.01},
                                      .decode_seconds = {0, 0},
                                      .ready = {0.25, 0.5}};
  // Encoding one slice takes as long as all the wire: the greater and a half of the less.
  const auto found = predict_step(model, loads(500, 500), speeds);
  CHECK(found.exchange == Approx(1.5));
  CHECK(found.step == Approx(3));  // complete after 1.5 and 2 s, sent after 2.25 and 3 s
}

TEST_CASE("more bytes never make a step shorter", "[grades]") {
  const StepModel model = model_of(0.3, 0.6);
  double before = 0;
  for (double bytes = 1; bytes < 1e5; bytes *= 1.7) {
    const double now = predict_step(model, loads(bytes, 100), {}).step;
    CHECK(now >= before);
    before = now;
  }
}
